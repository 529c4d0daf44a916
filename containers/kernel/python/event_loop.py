"""The event loop in which code awaits, and whose tasks go on between runs."""

import contextvars
import select

from work import WORK, name_of

JOIN_SECONDS = 0.1  # how long an idle thread may take to end


class EventLoop:
    """The one asyncio loop of a kernel, from the moment on that code wants one.

    It runs while a cell awaits, while a run waits for its tasks, and between runs. Code that does not
    await finds it all the same, as in a notebook; asyncio.run() and the like find none that runs, as in a script.
    """

    CANCELS = 3  # how often a task may swallow that
    CANCEL_SECONDS = 0.2  # how long it may take each time

    def __init__(self, route, is_top_level):
        self.route = route  # routes output by its writer
        self.is_top_level = is_top_level  # whether the caller is a cell, or called by one
        self.loop = None
        self.earlier = set()  # tasks of earlier runs

    def hook(self, events):
        """Makes asyncio give this loop to code that asks for one at top level."""
        running_loop = events.get_running_loop
        policy = getattr(events, "_BaseDefaultEventLoopPolicy", None) or events.BaseDefaultEventLoopPolicy
        policy_loop = policy.get_event_loop

        def get_running_loop():
            loop = events._get_running_loop()
            if loop is None:
                loop = self.get() if self.is_top_level() else running_loop()
            return loop

        def get_event_loop(policy):
            loop = policy._local._loop
            if (loop is None or loop.is_closed()) and self.is_top_level():
                policy.set_event_loop(self.get())
            return policy_loop(policy)

        events.get_running_loop, policy.get_event_loop = get_running_loop, get_event_loop
        if hasattr(events, "_get_event_loop"):  # which warns that there is none
            events._get_event_loop = lambda stacklevel=0: events.get_event_loop()

    def get(self):
        if not self.exists():
            import asyncio

            self.loop = asyncio.new_event_loop()
            self.route()
        return self.loop

    def exists(self):
        return self.loop is not None and not self.loop.is_closed()

    def is_running(self):
        return self.loop is not None and self.loop.is_running()

    def run(self, coroutine):
        """Runs a cell that awaits. Its context variables hold in the next cell, too."""
        loop, contexts = self.get(), []
        task = loop.create_task(keep_context(coroutine, contexts))
        try:
            return loop.run_until_complete(task)
        except BaseException:
            self._cancel([task])  # interrupted: or it would go on in the next run
            raise
        finally:
            for context in contexts:
                for variable, value in context.items():
                    if variable.get(None) is not value:
                        variable.set(value)

    def wait(self, files, seconds=None):
        """Waits until one of these can be read, and reports which. Tasks go on meanwhile."""
        if not self.exists():
            return select.select(files, [], [], seconds)[0]
        loop, ready = self.loop, []

        def stop(file):
            ready.append(file)
            loop.stop()

        timer = None
        try:
            for file in files:
                loop.add_reader(file, stop, file)
            if seconds is not None:
                timer = loop.call_later(seconds, loop.stop, context=contextvars.Context())
            loop.run_forever()
        except MemoryError:  # an interrupt
            raise
        except Exception:  # code closed a descriptor of the loop
            self.loop = None
        finally:
            if self.exists():
                for file in files:
                    loop.remove_reader(file)
            if timer is not None:
                timer.cancel()
        return ready

    # -- its tasks

    def is_waiting(self):
        """Whether something is left that may go on: between runs, or in a later one that awaits."""
        if not self.exists():
            return False
        selector = getattr(self.loop, "_selector", None)  # with a pipe of the loop's own
        return bool(self._tasks() or self._timers() or getattr(self.loop, "_ready", None)) or (
            selector is None or len(selector.get_map() or ()) > 1
        )

    def _tasks(self):
        if not self.exists():
            return set()
        import asyncio

        return asyncio.all_tasks(self.loop)

    def _timers(self):
        timers = getattr(self.loop, "_scheduled", ()) if self.exists() else ()
        return [timer for timer in list(timers) if not timer.cancelled()]

    def names(self):
        return sorted(name_of(task.get_coro()) + "()" for task in self._tasks())

    def sockets(self):
        return sockets_of(self.loop)

    def renew(self):
        """In a fork."""
        if self.exists():
            try:
                renew_loop(self.loop)
            except Exception:  # it is of another kind
                self.loop = None

    def tasks_of(self, work):
        """The tasks of the run that goes on."""
        tasks = self._tasks()
        if tasks and hasattr(next(iter(tasks)), "get_context"):  # from Python 3.12 on
            return {task for task in tasks if task.get_context().get(WORK) is work}
        return tasks - self.earlier

    def timers_of(self, work):
        return [timer for timer in self._timers() if timer._context.get(WORK) is work]

    def readers_of(self, work):
        """The descriptors that the run waits for, with their callbacks."""
        selector = getattr(self.loop, "_selector", None) if self.exists() else None
        for key in list((selector.get_map() or {}).values()) if selector is not None else ():
            if key.data and key.data[0] is not None and key.data[0]._context.get(WORK) is work:
                yield key.fd, key.data[0]

    def begin_run(self):
        self.earlier = self._tasks()

    def stop_run(self, work):
        """Cancels the tasks and timers of the run that goes on, and closes its servers."""
        for _, handle in self.readers_of(work):
            for server in handle._args or ():
                if hasattr(type(server), "start_serving"):
                    server.close()
        for timer in self.timers_of(work):
            timer.cancel()
        self._cancel(self.tasks_of(work))

    def _cancel(self, tasks):
        if not tasks:
            return
        import asyncio

        for _ in range(self.CANCELS):
            tasks = [task for task in tasks if not task.done()]
            if not tasks:
                return
            for task in tasks:
                self._cancel_one(task)
            waiter = self.loop.create_task(asyncio.wait(tasks, timeout=self.CANCEL_SECONDS))
            try:
                self.loop.run_until_complete(waiter)
            except KeyboardInterrupt:  # it comes again while the grace lasts
                waiter.cancel()
        if any(not task.done() for task in tasks):
            self.loop = None  # a task that cannot be stopped never runs again

    def _cancel_one(self, task):
        """Cancels a task; an awaited task of an earlier run goes on."""
        waiter = getattr(task, "_fut_waiter", None)
        if self.earlier.isdisjoint([waiter, *getattr(waiter, "_children", ())]):
            task.cancel()
            return
        for callback, context in waiter._callbacks or ():
            if getattr(callback, "__self__", None) is task:
                waiter.remove_done_callback(callback)
                cancelled = self.loop.create_future()
                cancelled.cancel()
                self.loop.call_soon(callback, cancelled, context=context)


async def keep_context(coroutine, contexts):
    try:
        return await coroutine
    finally:
        contexts.append(contextvars.copy_context())


def sockets_of(loop):
    """Descriptors of the pair by which a loop wakes itself."""
    pair = (getattr(loop, "_ssock", None), getattr(loop, "_csock", None))
    return [end.fileno() for end in pair if end is not None]


def renew_loop(loop):
    """Renews a loop's selector, which a fork shares with its parent."""
    import selectors

    for thing in (loop._selector, loop._ssock, loop._csock):
        thing.close()
    loop._selector = selectors.DefaultSelector()
    loop._internal_fds -= 1
    loop._make_self_pipe()
