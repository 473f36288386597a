"""A loop with Pillow and NumPy, as one writes it without any loader."""
VENV = "plain"
PACKAGES = ["pillow", "numpy"]
MODES = {"": {"title": "Pillow + NumPy in a loop", "max_cores": 1, "given": "files; full decode, `resize(box=)` with a triangle filter; no workers"}}


def batches(job):
    import random

    import numpy as np
    from PIL import Image
    from peerkit import recipe
    rng, normalize = random.Random(job.seed), recipe.Normalizer()
    while True:
        order = rng.sample(job.files, len(job.files))
        for at in range(0, len(order) - job.batch + 1, job.batch):
            out = np.empty((job.batch, 3, recipe.SIZE, recipe.SIZE), np.float16)
            for i, path in enumerate(order[at:at + job.batch]):
                with Image.open(path) as picture:
                    x, y, w, h = recipe.random_box(rng, *picture.size)
                    picture = picture.convert("RGB").resize((recipe.SIZE, recipe.SIZE), Image.Resampling.BILINEAR, (x, y, x + w, y + h))
                pixels = np.asarray(picture)
                normalize(pixels[:, ::-1] if rng.random() < 0.5 else pixels, out[i])
            yield out
