"""Large pictures are read in part: the same pixels as from whole files, few bytes, little memory; damage in a part that
is read is found, and reduced sizes are the same repacked and as they are."""
import json
import os
import pathlib
import subprocess
import time

import numpy as np
import pytest
from PIL import Image

import headrace

BIN = os.environ["HEADRACE_BIN"]
HUGE = (12000, 9000)
CROPS = {
    "crop": [{"random_crop": {"size": 700}}],
    "train": [{"random_resized_crop": {"size": 224}}, {"hflip": {"p": 0.5}}],
    "small": [{"random_resized_crop": {"size": 96, "scale": [0.01, 0.05]}}],
    "center": [{"resize": 256}, {"center_crop": 224}],
    "padded": [{"random_crop": {"size": 400, "pad": 300}}],
}


def run(*command):
    return subprocess.run([BIN, *map(str, command)], check=True, capture_output=True, text=True).stdout


def texture(width, height, seed=0):
    """Gradients and waves, nothing random: the same bytes on every machine."""
    y, x = np.mgrid[0:height, 0:width].astype(np.int32)
    planes = [((x * a + y * b >> 4) + ((x * x + 3 * y * y >> 7 + seed % 3) & 63)) & 255
              for a, b in ((1, 2), (2, 1), (1 + seed % 4, 1))]
    return np.stack(planes, -1).astype(np.uint8)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Pictures of 2 to 5 megapixels of several kinds, as they are and repacked."""
    work = tmp_path_factory.mktemp("parts")
    source = work / "source"
    source.mkdir()
    kinds = [(2200, 1500, 2, 1), (1500, 2300, 0, 1), (2600, 900, 1, 1), (2000, 1400, 2, 6), (1333, 1777, 2, 8),
             (1900, 1100, 2, 3)]
    for i, (width, height, subsampling, orientation) in enumerate(kinds):
        exif = Image.Exif()
        exif[0x112] = orientation
        Image.fromarray(texture(width, height, i)).save(source / f"{i}.jpg", quality=92, subsampling=subsampling,
                                                       exif=exif)
    Image.fromarray(texture(1400, 1300)[..., 0]).save(source / "gray.jpg", quality=95)
    for how in ("keep", "repack"):
        report = json.loads(run("pack", source, work / how, "--json", f"--jpeg={how}"))
        assert report["jpeg_repacked"] == (report["records"] if how == "repack" else 0)
    return work


def config(dataset, ops, epochs=3, **field):
    return {"dataset": str(dataset), "batch": 4, "last": "keep", "epochs": epochs, "seed": 5,
            "fields": {"image": {"ops": ops, "output": {"dtype": "u8", "layout": "nhwc"}, **field}}}


def pixels(dataset, ops, **field):
    with headrace.Loader(config(dataset, ops, **field)) as loader:
        out = []
        for _ in range(3):
            for batch in loader:
                out += [np.array(picture) for picture in batch["image"]]
        return out


@pytest.mark.parametrize("scaled", ["never", "auto"])
@pytest.mark.parametrize("ops", CROPS.values(), ids=CROPS)
def test_pixels_are_those_of_the_files(datasets, ops, scaled):
    kept = pixels(datasets / "keep", ops, scaled_decode=scaled)
    repacked = pixels(datasets / "repack", ops, scaled_decode=scaled)
    assert len(kept) == len(repacked) == 21
    for i, (a, b) in enumerate(zip(kept, repacked)):
        assert np.array_equal(a, b), f"sample {i}"


def bench(path, *options):
    """The result of a short measurement, and the most memory that the process had."""
    child = subprocess.Popen([BIN, "bench", path, "--json", "--workers", "1", *options], stdout=subprocess.PIPE, text=True)
    peak = 0
    while child.poll() is None:
        try:
            lines = pathlib.Path(f"/proc/{child.pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            break
        peak = max([peak, *(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))])
        time.sleep(0.01)
    out = child.communicate()[0]
    assert child.returncode == 0
    return json.loads(out), peak * 1024


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """One picture of 108 megapixels."""
    work = tmp_path_factory.mktemp("huge")
    (work / "source").mkdir()
    tile = texture(1500, 1500)
    path = work / "source/huge.jpg"
    Image.fromarray(np.tile(tile, (HUGE[1] // 1500, HUGE[0] // 1500, 1))).save(path, quality=85)
    for how in ("keep", "repack"):
        run("pack", path.parent, work / how, f"--jpeg={how}")
    return work


def huge_config(huge, how):
    path = huge / f"{how}.yaml"
    path.write_text(f"""dataset: {huge / how}
batch: 4
last: wrap
read_ahead_bytes: 16MiB
fields:
  image:
    ops:
      - random_crop: {{size: 1500}}
      - resize: [224, 224]
    output: {{dtype: u8, layout: nhwc}}
""")
    return path


@pytest.mark.parametrize("io", ["cached", "direct"])
def test_a_crop_of_a_huge_picture_takes_few_bytes_and_little_memory(huge, io):
    report, peak = bench(huge_config(huge, "repack"), "--batches", "8", f"--io={io}")
    stored = sum(path.stat().st_size for path in (huge / "repack").glob("*.hrs"))
    assert report["bad_samples"] == 0
    share = report["bytes_read_per_s"] / report["samples_per_s"] / stored
    print(f"{share:.3f} of {stored} bytes a sample, {peak / 2**20:.1f} MiB")
    assert share < 0.15
    assert peak < 64 << 20


def test_memory_of_a_file_as_it_is_does_not_grow_with_its_pixels(huge):
    report, peak = bench(huge_config(huge, "keep"), "--batches", "2")
    stored = sum(path.stat().st_size for path in (huge / "keep").glob("*.hrs"))
    print(f"{stored} bytes stored, {peak / 2**20:.1f} MiB")
    # The value is in memory as a whole, twice at most; its pixels never are (324 MB).
    assert report["bad_samples"] == 0
    assert peak < 2 * stored + (40 << 20)


def test_damage_in_a_part_is_found(datasets, tmp_path):
    for path in (datasets / "repack").iterdir():
        data = bytearray(path.read_bytes())
        if path.suffix == ".hrs":
            for at in range(30000, len(data) * 9 // 10, 20000):
                data[at] ^= 16
        (tmp_path / path.name).write_bytes(data)
    with pytest.raises(headrace.Error, match="checksum"):
        with headrace.Loader({**config(tmp_path, CROPS["small"]), "bad_records": "fail"}) as loader:
            for _ in loader:
                pass
