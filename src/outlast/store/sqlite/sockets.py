"""The sockets in the wake folder: bound, found and reached there, whoever else writes in it."""

import os
import socket
import stat
import time
from contextlib import suppress
from typing import Self

from outlast.store.sqlite.files import Likeness

NEW = "new"
_DESCRIPTORS = "/proc/self/fd"

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

    def __init__(self, path: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self._close = os.close
        self.number = -1
        self.number = os.open(path, flags)
        found = os.fstat(self.number)
        self.identity = (found.st_dev, found.st_ino)
        by_descriptor = f"{_DESCRIPTORS}/{self.number}"
        has_descriptors = hasattr(os, "O_PATH") and os.path.isdir(by_descriptor)
        self._path = by_descriptor if has_descriptors else path
        self._sender: DatagramSocket | None = None
        self._sent = 0

    def names(self) -> list[str]:
        """What is in the folder now; through a new descriptor, since each has one position."""
        return os.listdir(self._path + "/")

    def bind(self, ear: DatagramSocket, name: str, like: Likeness | None) -> None:
        """Give a socket a name here, once it listens and has the database's owner and mode."""
        first = f"{NEW}-{name}"
        mode = like.mode if like else 0o600
        os.fchmod(ear.fileno(), mode)
        ear.bind(f"{self._path}/{first}")
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
        with _Entry(name, self.number) as entry:
            address = entry.address(self._path)
            if not is_owned and like is not None:
                os.chown(address, like.uid, like.gid)
            os.chmod(address, mode)

    def send(self, name: str) -> None:
        """One empty datagram to one waiter; the socket of a dead one is removed."""
        with suppress(OSError), _Entry(name, self.number) as entry:
            try:
                sender = self._take_sender()
                sender.sendto(b"", socket.MSG_DONTWAIT, entry.address(self._path))
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


class _Entry:
    """One socket file, pinned down: what is planted under its name later is not followed."""

    def __init__(self, name: str, folder: int) -> None:
        self._name = name
        self._folder = folder
        self._number = -1

    def __enter__(self) -> Self:
        if hasattr(os, "O_PATH"):
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            self._number = os.open(self._name, flags, dir_fd=self._folder)
            found = os.fstat(self._number)
        else:
            found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        if not stat.S_ISSOCK(found.st_mode):
            self.__exit__()
            raise FileNotFoundError(f"{self._name} is not a socket")
        return self

    def address(self, folder: str) -> str:
        """Where to reach it, given where its folder is reached."""
        if folder.startswith(_DESCRIPTORS):
            return f"{_DESCRIPTORS}/{self._number}"
        return f"{folder}/{self._name}"

    def __exit__(self, *details: object) -> None:
        number, self._number = self._number, -1
        if number >= 0:
            os.close(number)
