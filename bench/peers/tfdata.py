"""tf.data: files, decoding of the region alone, its own thread pool."""
VENV = "tensorflow"
PACKAGES = ["tensorflow-cpu"]
MODES = {
    "antialias": {"title": "tf.data, antialias", "antialias": True,
                  "given": "files; `decode_and_crop_jpeg`, bilinear with antialias"},
    "plain": {"title": "tf.data, no antialias", "antialias": False, "easier": True,
              "given": "files; `decode_and_crop_jpeg`, bilinear without antialias: less work, other pixels"},
}
DEPTH = 3


def batches(job):
    import os
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf
    from peerkit import recipe
    tf.config.threading.set_intra_op_parallelism_threads(job.cores)
    tf.config.threading.set_inter_op_parallelism_threads(job.cores)
    mean, std = tf.constant(recipe.MEAN_255), tf.constant(recipe.STD_255)

    def load(path):
        data = tf.io.read_file(path)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(data), tf.zeros([1, 0, 4]), min_object_covered=0.0, aspect_ratio_range=(3 / 4, 4 / 3),
            area_range=(0.08, 1.0), max_attempts=10, use_image_if_no_bounding_boxes=True)
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        pixels = tf.image.decode_and_crop_jpeg(data, window, channels=3)
        pixels = tf.image.resize(pixels, (recipe.SIZE, recipe.SIZE), antialias=job.mode.antialias)
        pixels = (tf.image.random_flip_left_right(pixels) - mean) / std
        return tf.cast(tf.transpose(pixels, (2, 0, 1)), tf.float16)
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = job.cores
    options.threading.max_intra_op_parallelism = 1
    dataset = (tf.data.Dataset.from_tensor_slices(job.files).shuffle(len(job.files), seed=job.seed).repeat()
               .map(load, num_parallel_calls=job.cores).batch(job.batch, drop_remainder=True).prefetch(2).with_options(options))
    yield from dataset.as_numpy_iterator()
