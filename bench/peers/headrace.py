"""Headrace itself: a sidecar that is started for it, and a consumer in C or in Python."""
import pathlib
import subprocess

VENV = "plain"
PACKAGES = []
REPACKED = "`headrace pack`; region decode, triangular filter with antialias; "
KEPT = "`headrace pack --jpeg=keep`: the original bytes; region decode, triangular filter with antialias; "
MODES = {
    "avx512": {"title": "Headrace, repacked, AVX-512", "dataset": "repack", "level": "avx512", "given": REPACKED + "C consumer"},
    "python": {"title": "Headrace, repacked, Python", "dataset": "repack", "level": "", "consumer": "python",
               "given": REPACKED + "the best level, Python consumer"},
    "avx2": {"title": "Headrace, repacked, AVX2", "dataset": "repack", "level": "avx2", "given": REPACKED + "C consumer"},
    "c": {"title": "Headrace, repacked, plain C", "dataset": "repack", "level": "c", "max_cores": 1, "given": REPACKED + "no SIMD, C consumer"},
    "keep": {"title": "Headrace, files as they are", "dataset": "keep", "level": "", "given": KEPT + "C consumer"},
    "keep-python": {"max_cores": 1, "title": "Headrace, files as they are, Python", "dataset": "keep", "level": "", "consumer": "python",
                    "given": KEPT + "Python consumer"},
    "raw256": {"title": "Headrace, raw 256 px", "dataset": "raw256", "level": "", "easier": True,
               "given": "`headrace pack --store raw --max-side 256`: no decoding, and less to see; C consumer"},
}
DEPTH = 4
PACK = {"repack": ["--jpeg=repack"], "keep": ["--jpeg=keep"], "raw256": ["--store", "raw", "--max-side", "256"]}


def needs(mode):
    """Why this mode cannot be run here, or None."""
    if mode["level"] in ("avx512", "avx2"):
        flags = pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n")[0].split()
        if {"avx512": "avx512_vbmi2", "avx2": "avx2"}[mode["level"]] not in flags:
            return "this CPU has no " + mode["level"].upper()
    return None


def environment(job):
    level = {"HEADRACE_CPU": job["mode"]["level"]} if job["mode"]["level"] else {}
    return {"HEADRACE_BIN": job["binary"], "HEADRACE_LIB": job["library"], "PYTHONPATH": job["python"], **level}


def command(job):
    """A consumer in C speaks the lines of child.py itself; for one in Python there is nothing to say."""
    if job["mode"].get("consumer") == "python":
        return None
    return [job["consumer"], job["binary"], write_pipeline(job), str(job["depth"]), str(job["warmup"])]


def write_pipeline(job):
    from peerkit import recipe
    path = pathlib.Path(job["work"], f"{job['name']}.yaml")
    path.write_text(f"""dataset: {job["dataset"]}/data
batch: {job['batch']}
workers: {job['cores']}
seed: {job['seed']}
fields:
  image:
    ops:
      - random_resized_crop: {{size: {recipe.SIZE}}}
      - hflip: {{p: 0.5}}
      - normalize: {{mean: {list(recipe.MEAN)}, std: {list(recipe.STD)}}}
    output: {{dtype: f16, layout: nchw}}
""")
    return str(path)


def stamp(job):
    """A dataset that another build packed is packed again."""
    return pathlib.Path(job["binary"]).stat().st_mtime_ns


def prepare(job):
    source = pathlib.Path(job.dataset, "source")
    source.mkdir()
    for i, path in enumerate(job.files):
        (source / f"{i:07d}.jpg").symlink_to(path)
    subprocess.run([job.binary, "pack", source, job.dataset + "/data", "-q", *PACK[job.mode.dataset]], check=True)


def batches(job):
    import headrace
    with headrace.Loader(write_pipeline({**vars(job)})) as loader:
        while True:
            for batch in loader:
                yield batch["image"]
