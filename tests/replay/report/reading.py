"""Parses a report into its elements, tables, figures and data."""

import base64
import json
import zlib
from html.parser import HTMLParser

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """The elements of a page: tag, attributes, text, and the elements inside."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.root = {"tag": "", "attributes": {}, "parts": []}
        self._open = [self.root]
        self.feed(text)
        self.close()
        assert self._open == [self.root], "an element is not closed"

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "attributes": dict(attributes), "parts": []}
        self._open[-1]["parts"].append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open.pop()["tag"] == tag

    def handle_data(self, data):
        self._open[-1]["parts"].append(data)

    def find(self, tag=None, **attributes):
        """Return all elements of a kind; an attribute given as True only has to exist."""
        return [one for one in walk(self.root) if fits(one, tag, attributes)]

    def one(self, tag=None, **attributes):
        """Return the only element of a kind."""
        (found,) = self.find(tag, **attributes)
        return found

    def figure(self, name):
        """Return a value of the headline, with all decimals."""
        return self.one("dd", data_figure=name)["attributes"]["title"]

    def table(self, name):
        """Return the rows of a table as texts by their first cell, without the head."""
        rows = [row for row in walk(self.one("table", id=name)) if row["tag"] == "tr"]
        cells = [[text_of(cell) for cell in row["parts"]] for row in rows]
        return {row[0]: row[1:] for row in cells}

    def data(self, name):
        """Return the data of a figure, with the values of each series by column."""
        script = [one for one in walk(self.one("figure", id=name)) if one["tag"] == "script"]
        data = json.loads(zlib.decompress(base64.b64decode(text_of(script[0]))))
        for panel in data["panels"]:
            for series in panel["series"]:
                restore(series)
        return data


def restore(series):
    """Replace differences by values: each last one counts from the one before it."""
    base = 0
    for at, step in enumerate(series["last"]):
        held = base + (step or 0)
        series["last"][at] = None if step is None else held
        for part, end in (("low", min(base, held)), ("high", max(base, held))):
            if series[part][at] is not None:
                series[part][at] += end
        base = held


def walk(element):
    for part in element["parts"]:
        if isinstance(part, dict):
            yield part
            yield from walk(part)


def fits(element, tag, attributes):
    known = element["attributes"]
    for name, value in attributes.items():
        name = name.rstrip("_").replace("_", "-")
        if name not in known or (value is not True and known[name] != value):
            return False
    return tag is None or element["tag"] == tag


def text_of(element):
    return "".join(
        part if isinstance(part, str) else text_of(part) for part in element["parts"]
    ).strip()
