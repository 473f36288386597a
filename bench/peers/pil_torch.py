"""Pillow in torch's DataLoader: what most training scripts do."""
from peerkit.recipe import depth  # noqa: F401

VENV = "torch"
PACKAGES = ["torch", "torchvision", "pillow"]
MODES = {"": {"title": "PIL + torch DataLoader",
              "given": "files; full decode, PIL's bilinear resize (antialias); in the process on one core, else a worker a core"}}


def batches(job):
    from peerkit import torch_parts
    from PIL import Image
    chain = torch_parts.pil_chain()

    class Pictures:
        def __len__(self):
            return len(job.files)

        def __getitem__(self, i):
            with Image.open(job.files[i]) as picture:
                return chain(picture.convert("RGB"))
    pictures = Pictures()
    yield from torch_parts.feed(pictures, job, sampler=torch_parts.shuffled(pictures))
