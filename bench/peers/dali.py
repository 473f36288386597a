"""NVIDIA DALI without a GPU: files, decoding of the region alone, everything fused in its C++ pipeline."""
VENV = "dali"
PACKAGES = ["nvidia-dali-cuda120"]
MODES = {"": {"title": "NVIDIA DALI, CPU", "given": "files; region decode, triangular filter with antialias"}}
DEPTH = 3


def batches(job):
    import numpy as np
    from nvidia.dali import fn, pipeline_def, types
    from peerkit import recipe

    @pipeline_def(batch_size=job.batch, num_threads=job.cores, device_id=None, seed=job.seed, prefetch_queue_depth=2)
    def chain():
        data, _ = fn.readers.file(files=job.files, random_shuffle=True, name="reader")
        pictures = fn.decoders.image_random_crop(data, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0],
                                                 random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
        pictures = fn.resize(pictures, size=recipe.SIZE, interp_type=types.INTERP_TRIANGULAR, antialias=True)
        return fn.crop_mirror_normalize(pictures, dtype=types.FLOAT16, output_layout="CHW", mean=list(recipe.MEAN_255),
                                        std=list(recipe.STD_255), mirror=fn.random.coin_flip(probability=0.5))
    pipe = chain()
    pipe.build()
    while True:
        yield np.asarray(pipe.run()[0].as_tensor())     # a view
