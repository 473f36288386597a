"""FFCV: its own file, in which pictures are encoded anew, and code that Numba compiles at the start."""
VENV = "ffcv"
PACKAGES = ["ffcv", "torch", "numba", "numpy", "opencv-python"]
SYSTEM = "a C++ compiler, pkg-config, the headers of OpenCV and libturbojpeg (Debian: g++ pkg-config libopencv-dev libturbojpeg0-dev)"
MODES = {
    "jpeg": {"title": "FFCV, JPEG q90", "write": "jpg", "side": None,
             "given": "its own re-encoding at quality 90; full decode, OpenCV's INTER_AREA"},
    "raw256": {"title": "FFCV, raw 256 px", "write": "raw", "side": 256, "easier": True,
               "given": "stored pixels, the longer side cut to 256: no decoding, and less to see"},
}
DEPTH = 4


class Pictures:
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        from PIL import Image
        return (Image.open(self.files[i]).convert("RGB"),)


def prepare(job):
    from ffcv.fields import RGBImageField
    from ffcv.writer import DatasetWriter
    field = RGBImageField(write_mode=job.mode.write, max_resolution=job.mode.side, jpeg_quality=90)
    DatasetWriter(job.dataset + "/data.beton", {"image": field}, num_workers=1).from_indexed_dataset(Pictures(job.files))


def batches(job):
    import numpy as np
    import torch
    from ffcv.fields.decoders import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
    from peerkit import recipe
    torch.set_num_threads(1)
    chain = [RandomResizedCropRGBImageDecoder((recipe.SIZE, recipe.SIZE)), RandomHorizontalFlip(),
             NormalizeImage(np.array(recipe.MEAN_255), np.array(recipe.STD_255), np.float16), ToTensor(),
             ToTorchImage(channels_last=False)]
    indices = np.tile(np.arange(len(job.files)), recipe.PASSES)
    loader = Loader(job.dataset + "/data.beton", batch_size=job.batch, num_workers=job.cores, order=OrderOption.RANDOM,
                    os_cache=True, drop_last=True, seed=job.seed, indices=indices, pipelines={"image": chain})
    while True:
        for batch in loader:
            yield batch[0]
