"""The yardstick: files in memory, each decoded in full by libjpeg-turbo, and nothing else. No crop, no resize, no batch."""
VENV = "plain"
PACKAGES = ["simplejpeg"]
MODES = {"": {"title": "simplejpeg, decode only", "given": "files in memory; full decode to RGB, a thread a core; no crop, resize or batch"}}


def batches(job):
    from concurrent.futures import ThreadPoolExecutor

    from simplejpeg import decode_jpeg     # releases the GIL
    data = [open(path, "rb").read() for path in job.files]

    def share(span):
        for value in span:
            decode_jpeg(value)
    with ThreadPoolExecutor(job.cores) as pool:
        at = 0
        while True:
            batch = [data[(at + i) % len(data)] for i in range(job.batch)]
            at += job.batch
            list(pool.map(share, [batch[k::job.cores] for k in range(job.cores)]) if job.cores > 1 else [share(batch)])
            yield batch
