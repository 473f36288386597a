"""WebDataset: tar files in sequence, PIL, torch's DataLoader."""
import tarfile

from peerkit.recipe import depth  # noqa: F401

VENV = "torch"
PACKAGES = ["webdataset", "torch", "torchvision"]
MODES = {"": {"title": "WebDataset",
              "given": "tar files; PIL, bilinear resize (antialias); in the process on one core, else a worker a core"}}
SHARDS = 8


def prepare(job):
    for k in range(SHARDS):
        with tarfile.open(f"{job.dataset}/{k:03d}.tar", "w", dereference=True) as tar:
            for i in range(k, len(job.files), SHARDS):
                tar.add(job.files[i], f"{i:07d}.jpg")


def batches(job):
    import webdataset
    from peerkit import torch_parts
    from torch.utils.data import default_collate
    chain = torch_parts.pil_chain()
    shards = [f"{job.dataset}/{k:03d}.tar" for k in range(SHARDS)]
    dataset = (webdataset.WebDataset(shards, shardshuffle=SHARDS, resampled=False, nodesplitter=None, seed=job.seed)
               .shuffle(256).decode("pilrgb").to_tuple("jpg").map(lambda sample: chain(sample[0]))
               .batched(job.batch, collation_fn=default_collate, partial=False).repeat())
    loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=torch_parts.workers(job),
                                  persistent_workers=torch_parts.workers(job) > 0)
    while True:
        yield from loader
