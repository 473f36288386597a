"""SPDL: threads that call FFmpeg, with crop, scale and mirror as a filter graph; arithmetic in NumPy, a batch at a time."""
VENV = "spdl"
PACKAGES = ["spdl", "numpy"]
SYSTEM = "FFmpeg's libraries (Debian: ffmpeg)"
MODES = {"": {"title": "SPDL",
              "given": "files; FFmpeg decode, crop and bilinear `scale` as a filter graph, arithmetic in NumPy; a thread a core"}}
DEPTH = 5


def batches(job):
    import random

    import numpy as np
    import spdl.io
    from peerkit import recipe
    from spdl.pipeline import PipelineBuilder
    rng = random.Random(job.seed)
    scale = (1 / np.array(recipe.STD_255, np.float32)).reshape(3, 1, 1)
    shift = (-np.array(recipe.MEAN, np.float32) / np.array(recipe.STD, np.float32)).reshape(3, 1, 1)

    def paths():
        while True:
            yield from rng.sample(job.files, len(job.files))

    def decode(path):
        packets = spdl.io.demux_image(path)
        size = packets.codec
        x, y, w, h = recipe.random_box(rng, size.width, size.height)
        flip = ",hflip" if rng.random() < 0.5 else ""
        graph = f"crop={w}:{h}:{x}:{y},scale={recipe.SIZE}:{recipe.SIZE}:flags=bilinear{flip},format=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=spdl.io.get_video_filter_desc(filter_desc=graph, pix_fmt=None))

    def finish(frames):
        pixels = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        out = np.empty((len(pixels), 3, recipe.SIZE, recipe.SIZE), np.float16)
        for source, target in zip(pixels, out):
            work = source.transpose(2, 0, 1) * scale
            work += shift
            target[...] = work
        return out
    pipeline = (PipelineBuilder().add_source(paths()).pipe(decode, concurrency=job.cores).aggregate(job.batch, drop_last=True)
                .pipe(finish).add_sink(2).build(num_threads=job.cores))
    with pipeline.auto_stop():
        yield from pipeline
