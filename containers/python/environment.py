"""The environment variables of kernels that neither the image nor the server sets."""

import os

# Set where neither the image nor the server does. The thread pools of numerical libraries
# count the host's processors, and their threads count against the limit of processes.
# Polars has its options in variables: it shows 8 columns of a frame, and does not wrap a wide one.
DEFAULT_ENV = {
    "MPLBACKEND": "agg",
    "PLOTLY_RENDERER": "plotly_mimetype",
    "POLARS_FMT_MAX_COLS": "100",
    "POLARS_TABLE_WIDTH": "2000",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_MAX_THREADS")


def cpu_count():
    """The processors that this container may use, whole ones; at the least 1."""
    count = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        try:
            with open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") as file:
                quota = file.read().strip()
            with open("/sys/fs/cgroup/cpu/cpu.cfs_period_us") as file:
                period = file.read().strip()
        except OSError:
            return count
    if quota.isdigit() and period.isdigit():
        count = min(count, max(1, round(int(quota) / int(period))))
    return count
