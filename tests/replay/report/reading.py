"""Parses a report into its elements, tables, figures and data."""

import itertools
import json
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
        """Return the tooltip texts of a figure."""
        script = [one for one in walk(self.one("figure", id=name)) if one["tag"] == "script"]
        data = json.loads(text_of(script[0]))
        for line in data["lines"]:
            # A text equal to the one before is written as 0.
            line["texts"] = list(itertools.accumulate(line["texts"], repeated))
        return data


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


def repeated(before, text):
    return before if text == 0 else text


def text_of(element):
    return "".join(
        part if isinstance(part, str) else text_of(part) for part in element["parts"]
    ).strip()
