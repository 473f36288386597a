"""torchvision's v2 transforms over tensors, in torch's DataLoader."""
from peerkit.recipe import depth  # noqa: F401

VENV = "torch"
PACKAGES = ["torch", "torchvision"]
MODES = {"": {"title": "torchvision v2 + DataLoader",
              "given": "files; `decode_jpeg`, antialias; in the process on one core, else a worker a core"}}


def batches(job):
    from peerkit import torch_parts
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    chain = torch_parts.tensor_chain()

    class Pictures:
        def __len__(self):
            return len(job.files)

        def __getitem__(self, i):
            return chain(decode_jpeg(read_file(job.files[i]), mode=ImageReadMode.RGB))
    pictures = Pictures()
    yield from torch_parts.feed(pictures, job, sampler=torch_parts.shuffled(pictures))
