"""MosaicML Streaming: MDS shards, PIL, torch's DataLoader."""
from peerkit.recipe import depth  # noqa: F401

VENV = "torch"
PACKAGES = ["mosaicml-streaming", "torch", "torchvision"]
MODES = {"": {"title": "MosaicML Streaming",
              "given": "MDS of the original bytes; PIL, bilinear resize (antialias); in the process on one core, else a worker a core"}}


def prepare(job):
    from streaming import MDSWriter
    with MDSWriter(out=job.dataset + "/mds", columns={"image": "bytes"}) as writer:
        for path in job.files:
            writer.write({"image": open(path, "rb").read()})


def batches(job):
    import io

    from peerkit import recipe, torch_parts
    from PIL import Image
    from streaming import StreamingDataset
    chain = torch_parts.pil_chain()

    class Pictures(StreamingDataset):
        def __getitem__(self, i):
            return chain(Image.open(io.BytesIO(super().__getitem__(i)["image"])).convert("RGB"))
    pictures = Pictures(local=job.dataset + "/mds", shuffle=True, batch_size=job.batch, shuffle_seed=job.seed,
                        epoch_size=len(job.files) * recipe.PASSES)
    yield from torch_parts.feed(pictures, job)
