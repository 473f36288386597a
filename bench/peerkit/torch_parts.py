"""What the loaders that stand on torch have in common: transforms of torchvision, and a DataLoader that goes on for ever."""
import torch
from torch.utils.data import DataLoader, RandomSampler
from torchvision.transforms import v2

from peerkit import recipe

torch.set_num_threads(1)


def tensor_chain():
    return v2.Compose([v2.RandomResizedCrop(recipe.SIZE, antialias=True), v2.RandomHorizontalFlip(),
                       v2.ToDtype(torch.float32, scale=True), v2.Normalize(recipe.MEAN, recipe.STD), v2.ToDtype(torch.float16)])


def pil_chain():
    return v2.Compose([v2.RandomResizedCrop(recipe.SIZE), v2.RandomHorizontalFlip(), v2.PILToTensor(),
                       v2.ToDtype(torch.float32, scale=True), v2.Normalize(recipe.MEAN, recipe.STD), v2.ToDtype(torch.float16)])


def workers(job):
    """On one core a worker only adds the way to it: measured, it is slower than none."""
    return job.cores if job.cores > 1 else 0


def shuffled(dataset):
    return RandomSampler(dataset, num_samples=len(dataset) * recipe.PASSES)


def feed(dataset, job, **options):
    count = workers(job)
    loader = DataLoader(dataset, batch_size=job.batch, num_workers=count, drop_last=True, persistent_workers=count > 0, **options)
    while True:
        yield from loader
