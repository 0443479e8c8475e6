"""The sockets in the wake folder: bound, found and reached there, whoever else writes in it."""

import os
import socket
import stat
import time
from contextlib import suppress

from outlast.store.sqlite.side_folder.safe_open import DESCRIPTORS, Pinned
from outlast.store.sqlite.side_folder.side_folder import Likeness, SideFolder

NEW = "new"

# What a stopped process leaves unread counts against the socket that sent it, and a sender whose
# buffer is full reaches nobody: after so many datagrams another one takes over.
_DATAGRAMS_OF_A_SENDER = 64

# A socket still under its first name after so long is of a process that died making it.
_MAKING_NS = 60_000_000_000


class DatagramSocket(socket.socket):
    """Closed with its last user: no thread ever meets a number that has become another file's."""

    def __init__(self) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def __del__(self) -> None:
        self.close()


class WakeFolder:
    """The wake folder, held open: its sockets are reached however long its path is."""

    def __init__(self, folder: SideFolder) -> None:
        self._close = os.close
        self.number = -1
        self.number = folder.open_folder(folder.wake)
        found = os.fstat(self.number)
        self.identity = (found.st_dev, found.st_ino)
        by_descriptor = f"{DESCRIPTORS}/{self.number}"
        has_descriptors = hasattr(os, "O_PATH") and os.path.isdir(by_descriptor)
        self._path = by_descriptor if has_descriptors else str(folder.wake)
        self._sender: DatagramSocket | None = None
        self._sent = 0

    def names(self) -> list[str]:
        """What is in the folder now; through a new descriptor, since each has one position."""
        return os.listdir(self._path + "/")

    def bind(self, bound: DatagramSocket, name: str, like: Likeness | None) -> None:
        """Give a socket a name here, once it listens and has the database's owner and mode."""
        first = f"{NEW}-{name}"
        mode = like.mode if like else 0o600
        os.fchmod(bound.fileno(), mode)
        bound.bind(f"{self._path}/{first}")
        try:
            self._dress(first, mode, like)
            os.rename(first, name, src_dir_fd=self.number, dst_dir_fd=self.number)
        except BaseException:
            self.unlink(first)
            raise

    def _dress(self, name: str, mode: int, like: Likeness | None) -> None:
        found = os.stat(name, dir_fd=self.number, follow_symlinks=False)
        is_owned = like is None or os.geteuid() != 0 or like[1:] == (found.st_uid, found.st_gid)
        if is_owned and stat.S_IMODE(found.st_mode) == mode:
            return
        with Pinned(name, self.number, stat.S_ISSOCK) as entry:
            address = entry.address_in(self._path)
            if not is_owned and like is not None:
                os.chown(address, like.uid, like.gid)
            os.chmod(address, mode)

    def send(self, name: str) -> None:
        """One empty datagram to one waiter; the socket of a dead one is removed."""
        with suppress(OSError), Pinned(name, self.number, stat.S_ISSOCK) as entry:
            try:
                sender = self._take_sender()
                sender.sendto(b"", socket.MSG_DONTWAIT, entry.address_in(self._path))
            except ConnectionRefusedError:
                self.unlink(name)

    def _take_sender(self) -> DatagramSocket:
        sender = self._sender
        if sender is None or self._sent >= _DATAGRAMS_OF_A_SENDER:
            self._sent = 0
            sender = self._sender = DatagramSocket()
        self._sent += 1
        return sender

    def sweep(self, name: str) -> None:
        """Remove a socket whose maker died before it had its name."""
        with suppress(OSError):
            found = os.stat(name, dir_fd=self.number, follow_symlinks=False)
            is_made_here = stat.S_ISSOCK(found.st_mode) or stat.S_ISFIFO(found.st_mode)
            if is_made_here and time.time_ns() - found.st_ctime_ns > _MAKING_NS:
                self.unlink(name)

    def unlink(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self.number)

    def close(self) -> None:
        """Only when nobody else can be using it; otherwise it closes with its last user."""
        number, self.number = self.number, -1
        if number >= 0:
            self._close(number)
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    def __del__(self) -> None:
        if self.number >= 0:
            self._close(self.number)
