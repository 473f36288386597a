"""What `views:` saves: several crops out of one read and decode, against loading the picture once for each crop.

    python3 bench/views.py BUILD FOLDER... [--rounds 5] [--seconds 2]

CPU time of the whole process on one core, a picture: the least of some interleaved rounds, since others may use the
machine. "saved" is that of the separate loads over that of the views."""
import argparse
import pathlib
import tempfile

from photos import Photos

OUTPUT = "output: {dtype: f16, layout: nchw}"
NORMALIZE = "normalize: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}"
CHANGES = ["hflip", "color_jitter: {brightness: 0.8, contrast: 0.8, saturation: 0.8, hue: 0.2, p: 0.8}", "grayscale: {p: 0.2}",
           "gaussian_blur: {kernel_size: 23, p: 0.5}"]


def ops(*crop):
    return "ops: [" + ", ".join("{" + op + "}" if ":" in op else op for op in [*crop, NORMALIZE]) + "]"


def crop(size, low=0.08, high=1):
    return f"random_resized_crop: {{size: {size}, scale: [{low}, {high}]}}"


PLAIN, SIMCLR = ops(crop(224), "hflip"), ops(crop(224), *CHANGES)
SMALL = ops(crop(96, 0.02, 0.1), "hflip")
GLOBAL, LOCAL = ops(crop(224, 0.4), "hflip"), ops(crop(96, 0.05, 0.4), "hflip")
# name: the field with views, and what it would be loaded as without: (how often, field)
CASES = {
    "2 x RRC 224": (f"{PLAIN}, views: 2", [(2, PLAIN)]),
    "2 x SimCLR 224": (f"{SIMCLR}, views: 2", [(2, SIMCLR)]),
    "2 x RRC 96 of 2 to 10 %": (f"{SMALL}, views: 2", [(2, SMALL)]),
    "2 x RRC 224, 8 x RRC 96 (DINO)": (f"views: {{global: {{count: 2, {GLOBAL}}}, local: {{count: 8, {LOCAL}}}}}",
                                       [(2, GLOBAL), (8, LOCAL)]),
}


def cpu_us_a_picture(photos, how, field, args):
    dataset = photos.pipelines[how].with_suffix("")
    path = photos.pipelines[how].with_name("views.yaml")
    path.write_text(f"dataset: {dataset}\nbatch: 32\nfields:\n  image: {{{field}, {OUTPUT}}}\n")
    photos.pipelines["views"] = path
    return photos.bench("views", args.core, args.seconds)["cpu_us_per_sample"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folders", type=pathlib.Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--core", default="0")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        photos = Photos(args.build, args.folders, work)
        for how in ("repack", "keep"):
            for name, (views, alone) in CASES.items():
                fields = [views, *(field for _, field in alone)]
                rounds = [[cpu_us_a_picture(photos, how, field, args) for field in fields] for _ in range(args.rounds)]
                together, *each = map(min, zip(*rounds))
                apart = sum(n * us for (n, _), us in zip(alone, each))
                print(f"{how:6}  {name:32} {together:7.0f} us, separately {apart:7.0f} us, saved {apart / together:.2f} x",
                      flush=True)


if __name__ == "__main__":
    main()
