"""Inside the sandbox: the first process, parent of the program, and its only way out.

``python -I -S relay.py SOCKET PORT COMMAND…`` listens on 127.0.0.1:PORT, joins
every connection with one to the unix socket, starts the command, hands SIGTERM,
SIGINT and SIGHUP on to it, collects what it orphans, and ends as it ends (128
and the number where a signal ended it). With it ends everything in its process
namespace.

Only the smallest part of the standard library, and one thread: this is on the
way of each start.
"""

import os
import selectors
import signal
import socket
import sys

_CHUNK = 256 * 1024


class _Way:
    """One direction of a connection: what was read from ``source`` and not yet written to ``sink``."""

    __slots__ = ("source", "sink", "data", "ended")

    def __init__(self, source, sink):
        self.source, self.sink, self.data, self.ended = source, sink, b"", False


class Relay:
    def __init__(self, path, port):
        self.path = path
        self.selector = selectors.DefaultSelector()
        self.ways = {}  # socket: (the way that reads it, the way that writes it)
        self.listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)

    def accept(self):
        try:
            inner, _ = self.listener.accept()
        except OSError:
            return
        outer = socket.socket(socket.AF_UNIX)
        try:
            outer.connect(self.path)
        except OSError:
            inner.close()
            outer.close()
            return
        out, back = _Way(inner, outer), _Way(outer, inner)
        for end, ways in ((inner, (out, back)), (outer, (back, out))):
            end.setblocking(False)
            self.ways[end] = ways
            self.selector.register(end, selectors.EVENT_READ)
        inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def serve(self, end, mask):
        reading, writing = self.ways[end]
        try:
            if mask & selectors.EVENT_WRITE and writing.data:
                writing.data = writing.data[end.send(writing.data) :]
                self.flushed(writing)
            if mask & selectors.EVENT_READ and not reading.data and not reading.ended:
                chunk = end.recv(_CHUNK)
                if chunk:
                    sent = 0
                    try:
                        sent = reading.sink.send(chunk)
                    except BlockingIOError:
                        pass
                    reading.data = chunk[sent:]
                else:
                    reading.ended = True
                self.flushed(reading)
        except BlockingIOError:
            pass
        except OSError:
            self.drop(end)
            return
        if reading.ended and writing.ended and not reading.data and not writing.data:
            self.drop(end)
            return
        self.interest(reading)
        self.interest(writing)

    @staticmethod
    def flushed(way):
        """Hand the end of a direction on once everything before it went out."""
        if way.ended and not way.data:
            way.sink.shutdown(socket.SHUT_WR)

    def interest(self, way):
        """Read while nothing waits to be written on; write while something does."""
        for end in (way.source, way.sink):
            reading, writing = self.ways[end]
            mask = 0
            if not reading.data and not reading.ended:
                mask |= selectors.EVENT_READ
            if writing.data:
                mask |= selectors.EVENT_WRITE
            known = end in self.selector.get_map()
            if mask and known:
                self.selector.modify(end, mask)
            elif mask:
                self.selector.register(end, mask)
            elif known:
                self.selector.unregister(end)

    def drop(self, end):
        reading, _ = self.ways[end]
        for one in (reading.source, reading.sink):
            if one in self.selector.get_map():
                self.selector.unregister(one)
            del self.ways[one]
            one.close()


def main(path, port, command):
    relay = Relay(path, port)
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    relay.selector.register(wake, selectors.EVENT_READ)
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    while True:
        for key, mask in relay.selector.select():
            if key.fileobj is relay.listener:
                relay.accept()
            elif key.fileobj == wake:
                for number in os.read(wake, 4096):
                    if number == signal.SIGCHLD:
                        status = _collect(child)
                        if status is not None:
                            return status
                    else:
                        os.kill(child, number)
            elif key.fileobj in relay.ways:
                relay.serve(key.fileobj, mask)


def _collect(child):
    """Collect whoever has ended; the exit status if the command is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code


if __name__ == "__main__":
    os._exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
