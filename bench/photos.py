"""What the scripts here share: photographs packed in both ways, and headrace bench run on them."""
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PIPELINE = """dataset: {dataset}
batch: 64
fields:
  image:
    ops:
      - random_resized_crop: {{size: 224}}
      - hflip: {{p: 0.5}}
      - normalize: {{mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}}
    output: {{dtype: f16, layout: nchw}}
"""


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr.strip() or done.returncode}")
    return done.stdout


class Photos:
    """JPEG files of some folders, and pipelines over them as they are ("keep") and repacked ("repack")."""

    def __init__(self, build, folders, work):
        self.build = build.resolve()
        self.headrace = self.build / "tools/headrace"
        self.files = sorted(str(p.resolve()) for folder in folders for p in folder.rglob("*.jpg"))
        source = pathlib.Path(work, "source")
        source.mkdir()
        for i, path in enumerate(self.files):
            (source / f"{i:06d}.jpg").symlink_to(path)
        self.pipelines = {}
        for how in ("keep", "repack"):
            dataset, self.pipelines[how] = pathlib.Path(work, how), pathlib.Path(work, how + ".yaml")
            run([self.headrace, "pack", source, dataset, "-q", f"--jpeg={how}"])
            self.pipelines[how].write_text(PIPELINE.format(dataset=dataset))

    def env(self, level=None):
        own = dict(os.environ, HEADRACE_BIN=str(self.headrace), PYTHONPATH=str(ROOT / "python"),
                   HEADRACE_LIB=str(self.build / "src/client/libheadrace.so"))
        return dict(own, HEADRACE_CPU=level) if level else own

    def bench(self, how, cores, seconds, *options, level=None):
        """The result of headrace bench on cores ("0" or "0,1"), with as many workers."""
        workers = str(len(cores.split(",")))
        return json.loads(run(["taskset", "-c", cores, self.headrace, "bench", self.pipelines[how], "--json",
                               "--workers", workers, "--seconds", str(seconds), *options], env=self.env(level)))
