"""The batch door of the plain-Python Book, as its callers see it; ``_run_py`` does the work."""

from typing import TYPE_CHECKING

from clob import _run_py
from clob._arrays import check_advance, check_seed
from clob._views_py import Views, alone

if TYPE_CHECKING:
    from clob._arrays import Records, Status


class Batch(Views):
    """The part of a Book that executes records."""

    @alone
    def run(
        self, events: "Records", fills: "Records | None" = None, status: "Status | None" = None
    ) -> "Records":
        """Execute a batch of records.

        A refused event changes nothing. With a status array the run goes on behind it; without
        one it stops there, and what came before stands. The compiled book releases the GIL, and
        meanwhile refuses every other call with ``BookBusy``.

        Args:
            events: array of ``EVENT``. ``LIMIT``, ``IOC``, ``CANCEL``, ``REDUCE``, ``REPLACE``,
                ``CLEAR`` and ``SEED`` are executed. ``TRADE``, ``FILL``, ``BBO`` and ``SETTLE`` are
                records to compare with and skipped. Sizes in lots.
            fills: array of ``FILL`` to write to, or None for one made to measure.
            status: array of ``uint8`` to write to, 0 for what was done or skipped, else the
                ``number`` of the error.

        Returns:
            The fills, in order; the head of ``fills`` where that was given.

        Raises:
            InvalidArrayError: an array has the wrong type, dtype, layout or length.
            RunRefused: no status array, and an event was refused; it has index, code and fills.
            FillsFull: the fills of an event do not fit; it was not executed, and
                ``run(events[index:])`` goes on.

        An event is refused, in this order, with ``INVALID_KIND``, ``INVALID_INSTRUCTION``
        (flags), ``INVALID_SIDE``, ``INVALID_ORDER_ID``, ``INVALID_OWNER``,
        ``PRICE_OUT_OF_RANGE``, ``INVALID_AMOUNT``, ``AMOUNT_TOO_LARGE``, ``ORDER_EXPIRED``,
        ``DUPLICATE_ORDER``, ``UNKNOWN_ORDER``, ``SIZE_NOT_REDUCED``,
        ``POST_ONLY_WOULD_CROSS``, ``SEED_WOULD_CROSS``, ``FOK_NOT_FILLABLE``.
        """
        return _run_py.run(self, events, fills, status)

    @alone
    def advance(
        self,
        events: "Records",
        fills: "Records",
        *,
        status: "Status | None" = None,
        bests: "Records | None" = None,
        kinds: "Status | None" = None,
        differs: "Status | None" = None,
        base: int = 0,
        instrument: int | None = None,
        watch: int = 0,
        passes: bool = False,
        verify: bool = False,
        start: int = 0,
        stop: int | None = None,
        until_ns: int | None = None,
    ) -> tuple[int, int, int, bool]:
        """Execute a stretch of a batch, as far as time and room go.

        It executes what :meth:`run` executes and refuses what that refuses. It ends behind the
        last event of the stretch, before an event whose fills do not fit into ``fills``, before
        any event while ``bests`` is full, before one of another ``instrument``, behind one that
        filled a resting order of ``watch`` or cleared the book while there is one to watch, or
        behind one whose fills are not the recorded ones. Who calls it often checks the arrays but
        once, by :meth:`lend` and :meth:`proceed`.

        Args:
            events: array of ``EVENT``.
            fills: array of ``FILL`` to write to; ``event`` counts from the first of ``events``,
                which is number ``base``.
            status: as for :meth:`run`; only the places of events executed are written.
            bests: array of ``BEST`` to write to, a row for each event that changed the best price
                or the size there; None writes none.
            kinds: array of ``uint8`` to write to, at least as long as events: the kind of each
                event executed or skipped; None writes none.
            differs: array of ``uint8`` to write to, at least as long as events: 1 where the fills
                of a command executed are not the recorded ones, as for ``verify``; nothing else is
                written. None writes none.
            base: the number of the first of ``events`` in ``fills`` and ``bests``.
            instrument: which events are of this book; None is all.
            watch: an owner; 0 watches nobody.
            passes: whether fills of ``watch`` are only told of and do not end it.
            verify: whether the fills of each command must be, in order, the resting order, size
                and price of the ``FILL`` events right behind it, also of those behind ``stop``.
            start: index of the first event of the stretch.
            stop: index behind its last one; None is the end of ``events``.
            until_ns: the stretch ends before the first event that is later; None is any time.

        Returns:
            Index of the first event not executed, how many rows were written to ``fills`` and to
            ``bests``, and whether ``watch`` or ``verify`` ended it, or a fill was let pass.

        Raises:
            InvalidArrayError: an array has the wrong type, dtype, layout or length.
            ValueError: a number is out of range.
            RunRefused: no status array, and an event was refused; it has index, code and fills.
        """
        lent = _run_py.Lent(*check_advance(events, fills, status, bests, kinds, differs))
        how = (base, instrument, watch, passes, verify, start, stop, until_ns)
        return _run_py.proceed(self, lent, 0, 0, None, *how)

    @staticmethod
    def lend(
        events: "Records",
        fills: "Records",
        *,
        status: "Status | None" = None,
        bests: "Records | None" = None,
        kinds: "Status | None" = None,
        differs: "Status | None" = None,
    ) -> _run_py.Lent:
        """Check arrays once for many stretches, in whatever books.

        The arrays are those of :meth:`advance`. What is given back holds their memory.

        Raises:
            InvalidArrayError: an array has the wrong type, dtype, layout or length.
        """
        return _run_py.Lent(*check_advance(events, fills, status, bests, kinds, differs))

    @alone
    def proceed(
        self,
        lent: _run_py.Lent,
        filled: int,
        told: int,
        most: int | None,
        base: int,
        instrument: int | None,
        watch: int,
        passes: bool,
        verify: bool,
        start: int,
        stop: int | None,
        until_ns: int | None,
        /,
    ) -> tuple[int, int, int, bool]:
        """Execute a stretch as :meth:`advance` does, of arrays lent; made to be called often.

        Args:
            lent: what :meth:`lend` gave.
            filled: how many rows of ``fills`` are written already.
            told: how many rows of ``bests`` are.
            most: after how many more of them it ends; 0 writes none, None is as many as there is
                room for.
            base: as for :meth:`advance`, and so all that follow.
            instrument: which events are of this book.
            watch: an owner.
            passes: whether fills of ``watch`` are let pass.
            verify: whether fills that are not the recorded ones end it.
            start: index of the first event of the stretch.
            stop: index behind its last one.
            until_ns: the latest time.

        Returns:
            As :meth:`advance`; rows of ``fills`` and ``bests`` are counted with those written
            before.

        Raises:
            TypeError: nothing was lent.
            ValueError: a number is out of range.
            RunRefused: no status array, and an event was refused; it has index, code and fills.
        """
        if type(lent) is not _run_py.Lent:
            raise TypeError(f"proceed needs what lend gave, not {type(lent).__name__}")
        how = (base, instrument, watch, passes, verify, start, stop, until_ns)
        return _run_py.proceed(self, lent, filled, told, most, *how)

    @alone
    def seed(self, events: "Records") -> int:
        """Rest a batch of orders without matching.

        Args:
            events: array of ``EVENT``, all of kind ``SEED``.

        Returns:
            How many orders were rested, all of them.

        Raises:
            InvalidArrayError: the array has the wrong type, dtype or layout.
            InvalidKindError: an event is no ``SEED``; nothing was done.
            RunRefused: an event was refused as by :meth:`run`; what came before stands.
        """
        events = check_seed(events)
        _run_py.run(self, events, None, None)
        return len(events)
