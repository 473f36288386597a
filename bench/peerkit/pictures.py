"""The pictures that all loaders get: found, sifted, and laid out in one folder, so often that an epoch is not over at once."""
import hashlib
import os
import pathlib
import shutil

FRAMES = {0xC0, 0xC1, 0xC2}     # baseline, extended, progressive: what all the decoders take


def kind(path):
    """(frame type, width, height, components) of a JPEG, or None."""
    try:
        with open(path, "rb") as file:
            if file.read(2) != b"\xff\xd8":
                return None
            while True:
                marker = file.read(2)
                if len(marker) < 2 or marker[0] != 0xFF:
                    return None
                length = int.from_bytes(file.read(2), "big")
                if length < 2:
                    return None
                if 0xC0 <= marker[1] <= 0xCF and marker[1] not in (0xC4, 0xC8, 0xCC):
                    head = file.read(6)
                    return marker[1], int.from_bytes(head[3:5], "big"), int.from_bytes(head[1:3], "big"), head[5]
                file.seek(length - 2, 1)
    except (OSError, IndexError):
        return None


def find(folders, limit):
    """(paths, how many were left out for not being JPEGs of three components)"""
    paths = sorted(p.resolve() for folder in folders for p in pathlib.Path(folder).rglob("*")
                   if p.suffix.lower() in (".jpg", ".jpeg") and p.is_file())
    good, bad = [], 0
    for path in paths:
        found = kind(path)
        if found and found[0] in FRAMES and found[3] == 3:
            good.append((path, found))
        else:
            bad += 1
        if limit and len(good) == limit:
            break
    return good, bad


class Pictures:
    """One selection in the cache: .folder, .files (as laid out there), .facts for the report."""

    def __init__(self, cache, folders, limit, least):
        found, left_out = find(folders, limit)
        if not found:
            raise SystemExit(f"no JPEG in {', '.join(map(str, folders))}: give a folder of photographs with --data")
        copies = max(1, -(-least // len(found)))
        sizes = [path.stat().st_size for path, _ in found]
        key = hashlib.sha256(repr([(str(p), s, p.stat().st_mtime_ns) for (p, _), s in zip(found, sizes)] + [copies]).encode())
        self.folder = pathlib.Path(cache, "data-" + key.hexdigest()[:12])
        self.list = self.folder / "files.txt"
        mpx = sum(k[1] * k[2] for _, k in found) / len(found) / 1e6
        self.facts = {"pictures": len(found), "copies": copies, "mean_kb": sum(sizes) / len(found) / 1000, "mean_mpx": mpx,
                      "progressive": sum(k[0] == 0xC2 for _, k in found), "left_out": left_out,
                      "folders": [pathlib.Path(f).name for f in folders]}
        if not self.list.exists():
            self._lay_out([path for path, _ in found], copies)
        self.files = self.list.read_text().split("\n")

    def _lay_out(self, paths, copies):
        """One picture after the other, then all again: real copies, since pages that are read twice are warmer than a dataset's."""
        source = self.folder / "source"
        shutil.rmtree(self.folder, ignore_errors=True)
        source.mkdir(parents=True)
        made = []
        for i in range(copies * len(paths)):
            made.append(source / f"{i:07d}.jpg")
            (os.symlink if copies == 1 else shutil.copyfile)(paths[i % len(paths)], made[-1])
        self.list.write_text("\n".join(map(str, made)))

    def warm(self, *folders):
        """Reads everything once, so that the page cache has it."""
        for folder in (self.folder / "source", *folders):
            for path in pathlib.Path(folder).rglob("*"):
                if path.is_file():
                    with open(path, "rb") as file:
                        while file.read(1 << 22):
                            pass
