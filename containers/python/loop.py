"""The loop of process 1: what is to be done where a descriptor has input, and at what time."""

import select
import time


class Loop:
    """One thread; nothing in it waits but the poll itself."""

    def __init__(self):
        self.poller = select.epoll()
        self.handlers = {}
        self.timers = {}  # name: (when, callback)

    def turn(self):
        """Never returns."""
        while True:
            for fd, _ in self.poller.poll(self._patience()):
                handler = self.handlers.get(fd)
                if handler is not None:
                    handler()
            self._fire_timers()

    def watch(self, fd, handler):
        self.handlers[fd] = handler
        self.poller.register(fd, select.EPOLLIN)

    def hand_on(self, fd, handler):
        """Gives what is watched to another handler."""
        self.handlers[fd] = handler

    def unwatch(self, fd):
        if self.handlers.pop(fd, None) is not None:
            self.poller.unregister(fd)

    def _patience(self):
        if not self.timers:
            return None
        return max(0.0, min(when for when, _ in self.timers.values()) - time.monotonic())

    def set_timer(self, name, seconds, callback):
        self.timers[name] = (time.monotonic() + seconds, callback)

    def set_timer_by(self, name, seconds, callback):
        """Like set_timer, but a timer of the name that is due sooner stays."""
        due = self.timers.get(name)
        if due is None or due[0] > time.monotonic() + seconds:
            self.set_timer(name, seconds, callback)

    def drop_timer(self, name):
        self.timers.pop(name, None)

    def _fire_timers(self):
        if not self.timers:
            return
        now = time.monotonic()
        for name in [name for name, (when, _) in self.timers.items() if when <= now]:
            due = self.timers.get(name)
            if due is not None and due[0] <= now:
                del self.timers[name]
                due[1]()
