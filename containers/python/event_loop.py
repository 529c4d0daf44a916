"""The event loop in which code awaits."""

from threads import WORK


class EventLoop:
    """The one asyncio loop of a kernel, so that tasks go on in the next run that awaits."""

    CANCELS = 3  # how often a task may swallow that
    CANCEL_SECONDS = 0.2  # how long it may take each time

    def __init__(self, route):
        self.route = route  # makes output depend on who writes
        self.loop = None
        self.earlier = set()  # tasks of earlier runs

    def run(self, coroutine):
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)  # asyncio.run() in an earlier run has taken it away
        self.route()
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            self._cancel([task])  # interrupted: or it would go on in the next run
            raise

    def is_running(self):
        return self.loop is not None and self.loop.is_running()

    def is_waiting(self):
        """Whether something is left that may go on in a later run."""
        if self.loop is None or self.loop.is_closed():
            return False
        return bool(self._tasks() or getattr(self.loop, "_scheduled", None) or getattr(self.loop, "_ready", None))

    def _tasks(self):
        if self.loop is None or self.loop.is_closed():
            return set()
        import asyncio

        return asyncio.all_tasks(self.loop)

    def begin_run(self):
        self.earlier = self._tasks()

    def stop_run(self, work):
        """Cancels the tasks and timers of the run that goes on."""
        if self.loop is None or self.loop.is_closed():
            return
        for timer in list(getattr(self.loop, "_scheduled", ())):
            context = getattr(timer, "_context", None)
            if context is not None and context.get(WORK) is work:
                timer.cancel()
        self._cancel(self._tasks() - self.earlier)

    def _cancel(self, tasks):
        import asyncio

        for _ in range(self.CANCELS):
            tasks = [task for task in tasks if not task.done()]
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            waiter = self.loop.create_task(asyncio.wait(tasks, timeout=self.CANCEL_SECONDS))
            try:
                self.loop.run_until_complete(waiter)
            except KeyboardInterrupt:  # it comes again while the grace lasts
                waiter.cancel()
        if any(not task.done() for task in tasks):
            self.loop = None  # a task that cannot be stopped never runs again
