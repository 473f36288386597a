"""A folder of pictures that is packed, looked into and loaded again."""
import json

from feed import headrace, run
from pictures import Folder

import numpy as np
from PIL import Image


class Packing(Folder):
    def setUp(self):
        super().setUp()
        self.source = self.folder / "source"
        self.source.mkdir()

    def save(self, name, picture, **options):
        path = self.source / name
        image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
        image.save(path, **options)
        return path

    def pack(self, *options, dst="ds", code=0):
        r = run("pack", self.source, self.folder / dst, "--json", *options, code=code)
        return json.loads(r.stdout) if r.stdout else r

    def extract(self, key, dst="ds", *options):
        out = self.folder / "out"
        run("inspect", self.folder / dst, key, "--extract", "image", "--out", out, *options)
        return out.read_bytes()

    def loaded(self, dst="ds", ops=(), output=None, **field):
        config = {"dataset": str(self.folder / dst), "batch": 4, "last": "keep", "order": "none", "epochs": 1,
                  "fields": {"image": {"ops": list(ops), "output": output or {"ragged": True}, **field}}}
        with headrace.Loader(config) as loader:
            return [np.array(batch["image"][i]) for batch in loader for i in range(len(batch.records))]
