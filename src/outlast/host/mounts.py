"""The file system that holds a path."""

import os
from pathlib import Path

from outlast.host import proc_files

_NETWORK_FILESYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs 9p afs ceph coda glusterfs lustre orangefs pvfs2 gfs gfs2"
    " ocfs2 beegfs virtiofs fuse.sshfs fuse.glusterfs fuse.s3fs fuse.rclone fuse.cephfs"
    " fuse.davfs".split()
)


def filesystem_type(path: Path) -> str | None:
    """The type of the file system that holds a path, from the kernel's mount table."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    inside = f"{path}/"
    best: tuple[int, str] | None = None
    for line in (proc_files.read_text("/proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split()
        if fields[2] == wanted or inside.startswith(fields[4].rstrip("/") + "/"):
            rank = (len(fields[4]) + (1 << 20 if fields[2] == wanted else 0), right.split()[0])
            best = max(best, rank) if best else rank
    return best[1] if best else None


def is_network_filesystem(kind: str | None) -> bool:
    """Whether locks on such a file system are somebody else's promise."""
    return kind in _NETWORK_FILESYSTEMS
