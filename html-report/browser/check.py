#!/usr/bin/python3
"""Opens reports in headless Chromium, and drives clicks and keys: every section, light and dark, and print. Any message of the console fails.

usage: check.py [--screenshots FOLDER] REPORT.html...
"""

import argparse
import base64
import json
import pathlib
import re
import sys

from driver import Keys, browser

# The contrast that WCAG 2 requires of text (AA).
LEAST_CONTRAST = 4.5
COLOURS = r"""
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgb = (colour) => { canvas.fillStyle = "#000"; canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
const light = (colour) => { const [r, g, b] = rgb(colour).map((value) => { const one = value / 255; return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const back = (element) => { for (let one = element; one; one = one.parentElement) { const colour = getComputedStyle(one).backgroundColor; if (rgb(colour).length && !/, 0\)$|transparent/.test(colour)) return colour; } return "#fff"; };
const worst = [];
for (const selector of arguments[0]) for (const element of [...document.querySelectorAll(selector)].slice(0, 400)) {
  if (!element.textContent.trim()) continue;
  const style = getComputedStyle(element), [one, other] = [light(style.color), light(back(element))].sort((a, b) => b - a);
  worst.push([(one + 0.05) / (other + 0.05), selector, style.color, back(element)]);
}
return worst.sort((a, b) => a[0] - b[0])[0];
"""


class Check:
    """The checks of one page."""

    def __init__(self, on, path, screenshots):
        self.on, self.path, self.screenshots = on, path, screenshots
        text = pathlib.Path(path).read_text(encoding="utf-8")
        self.data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
        self.done = []

    def expect(self, condition, what):
        if not condition:
            raise AssertionError(what)

    def run(self):
        for step in (self.opens, self.sections, self.names, self.search, self.treemap, self.gpus, self.tables, self.timeline, self.tabs, self.themes, self.prints):
            self.on.run("window.scrollTo(0, 0)")
            step()
            messages = self.on.messages()
            self.expect(not messages, f"{step.__name__}: the console says {messages}")
        return self.done

    def shoot(self, name):
        if self.screenshots:
            self.on.screenshot(self.screenshots / f"{pathlib.Path(self.path).stem}-{name}.png")

    def show(self, selector):
        self.on.run("document.documentElement.style.scrollBehavior = 'auto'; document.querySelector(arguments[0]).scrollIntoView()", selector)

    def opens(self):
        self.on.media(scheme="light")
        self.on.open(self.path)
        self.expect(self.on.find("#title").text == self.data["title"], "the title is not the data's")
        self.expect(self.on.run("return performance.getEntriesByType('resource').length") == 0, "the page loads something")
        elements = self.on.run("return [document.querySelectorAll('script').length, document.querySelectorAll('img, iframe, object, embed, link[rel=stylesheet]').length]")
        self.expect(elements == [2, 0], f"the page has other elements than its own: {elements}")
        self.shoot("light")

    def sections(self):
        links = [link.get_attribute("href").split("#")[1] for link in self.on.find_all("nav#sections a")]
        here = [section.get_attribute("id") for section in self.on.find_all("main section")]
        self.expect(links == here and len(set(here)) == len(here), f"{links} are not the sections {here}")
        self.done.append(f"{len(here)} sections")

    def names(self):
        """Everything that takes the focus has a role and a name, for those who do not see the page."""
        self.on.driver.execute_cdp_cmd("Accessibility.enable", {})
        nodes = self.on.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        for node in nodes:
            focusable = any(one["name"] == "focusable" and one["value"]["value"] for one in node.get("properties", []))
            role = node.get("role", {}).get("value")
            if focusable and not node.get("ignored") and role not in ("RootWebArea",):
                if not node.get("name", {}).get("value"):
                    found = self.on.driver.execute_cdp_cmd("DOM.describeNode", {"backendNodeId": node["backendDOMNodeId"]})["node"]
                    raise AssertionError(f"a {role} has no name: {found['nodeName']} {found.get('attributes')}")
        self.on.driver.execute_cdp_cmd("Accessibility.disable", {})

    def search(self):
        if not self.data["names"]:
            return
        self.on.keys("/")
        self.expect(self.on.active().get_attribute("id") == "search", "/ does not go to the search field")
        # A word of the first name that is a name of its own.
        word = max(re.findall(r"\w+", self.data["names"][0][0]), key=len)
        self.on.keys(word)
        self.frame()
        found = self.on.find("#found").text
        self.expect(re.search(r"[1-9][\d,]* in ", found), f"{word}: {found}")
        self.on.keys("-no-such-name")
        self.frame()
        self.expect(self.on.find("#found").text == "nothing found", self.on.find("#found").text)
        self.on.keys(Keys.ESCAPE)
        self.frame()
        self.expect(self.on.find("#search").get_attribute("value") == "" and self.on.find("#found").text == "", "Esc does not empty the search")
        self.on.keys(Keys.ESCAPE)
        self.expect(self.on.active().tag_name == "body", "Esc does not leave the search")
        self.done.append("search")

    def frame(self):
        self.on.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));")

    def treemap(self):
        if not self.on.find_all(".treemap"):
            return
        self.show("#bytes")
        tiles = self.on.find_all(".treemap .tile")
        self.expect(tiles or not self.data["tree"].get("children"), "the treemap has no tiles")
        overlap = self.on.run("""
            const box = document.querySelector(".treemap").getBoundingClientRect();
            return [...document.querySelectorAll(".treemap .tile")].filter((tile) => { const one = tile.getBoundingClientRect(); return one.right > box.right + 1 || one.bottom > box.bottom + 1; }).length""")
        self.expect(overlap == 0, f"{overlap} tiles leave the treemap")
        crumbs = lambda: len(self.on.find_all(".crumbs > *"))
        outer = self.on.find_all(".treemap .tile.outer")
        if not outer:
            return
        before = crumbs()
        # Into the largest, by a click beside its own tiles, and back by a key.
        self.on.run("arguments[0].click()", outer[0])
        self.expect(crumbs() > before, "a click does not open a tile")
        self.shoot("tile")
        self.on.keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        self.expect(self.on.active().get_attribute("role") == "treeitem", "arrows leave the treemap")
        self.on.keys(Keys.ESCAPE)
        self.expect(crumbs() == before, "Esc does not leave a tile")
        self.on.keys(Keys.ENTER)
        self.expect(crumbs() > before, "Enter does not open a tile")
        self.on.keys(Keys.HOME)
        self.expect(crumbs() == 1, "Home does not show all")
        # What is too small to be seen has a tile that opens.
        few = self.on.run("return [...document.querySelectorAll('.treemap .tile')].find((tile) => /smaller ones/.test(tile.getAttribute('aria-label')))")
        if few is not None:
            self.on.run("arguments[0].click()", few)
            self.expect(crumbs() > before and len(self.on.find_all(".treemap .tile")) > 1, "the smaller ones do not open")
            self.on.keys(Keys.HOME)
        self.on.hover(self.on.find(".treemap .tile.leaf"))
        self.expect("bytes" in self.on.find("#tooltip").text, "a tile has no tooltip")
        self.groups()
        self.done.append(f"{len(tiles)} tiles")

    def groups(self):
        """Many functions are in groups: the tile for what is too small holds no hundreds of them."""
        labels = [tile.get_attribute("aria-label") for tile in self.on.find_all(".treemap .tile")]
        counts = [int(found[1].replace(",", "")) for found in (re.match(r"([\d,]+) smaller ones", label) for label in labels) if found]
        self.expect(max(counts, default=0) <= 100, f"{max(counts, default=0)} functions are in no group")

    def gpus(self):
        cells = self.on.find_all("#gpus td[tabindex]")
        if not cells:
            return
        self.show("#gpus")
        group = self.data["gpus"][0]["groups"][0]
        row = self.on.find_all("#gpus tbody tr:not(.all)")[0]
        report = group["gpus"][0]
        heads = [head.text for head in self.on.find_all("#gpus thead th")]
        cell = row.find_elements("xpath", "./*")[heads.index(report["gpu"])] if report["gpu"] in heads else None
        if cell is not None:
            self.on.hover(cell)
            tip = self.on.find("#tooltip").text
            self.expect(report["outcome"] in tip and report["reason"] in tip, f"the reason of {report['gpu']} is missing: {tip}")
            self.shoot("gpus")
        self.on.run("arguments[0].focus()", cells[0])
        self.on.keys(Keys.ARROW_RIGHT)
        self.expect(self.on.active().id == cells[1].id, "an arrow does not go to the next GPU")
        self.done.append(f"{len(self.data['gpus'][0]['groups'])} groups of containers")

    def tables(self):
        for table in self.data["tables"]:
            name = f"#{table['id']}"
            self.show(name)
            grid = self.on.find(f"{name} [role=grid]")
            self.expect(int(grid.get_attribute("aria-rowcount")) == len(table["rows"]) + 1, f"{name} lacks rows")
            rows = self.on.find_all(f"{name} .row")
            self.expect(min(len(table["rows"]), 5) <= len(rows) < 200, f"{name} has {len(rows)} elements")
            if not rows:
                continue
            self.on.run("arguments[0].focus()", grid)
            self.on.keys(Keys.END)
            self.expect(grid.get_attribute("aria-activedescendant") == f"{table['id']}-row-{len(table['rows']) - 1}", f"{name}: End does not go to the last row")
            self.on.keys(Keys.ENTER)
            self.expect(self.on.find(f"{name} .detail").is_displayed(), f"{name}: Enter does not open a row")
            self.on.keys(Keys.ESCAPE, Keys.HOME, Keys.ARROW_DOWN)
            self.expect(not self.on.find(f"{name} .detail").is_displayed(), f"{name}: Esc does not close a row")
            for index in (0, 1):
                head = self.on.find_all(f"{name} [role=columnheader]")[index]
                head.find_element("css selector", "button").click()
                head = self.on.find_all(f"{name} [role=columnheader]")[index]
                self.expect(head.get_attribute("aria-sort") in ("ascending", "descending"), f"{name} is not sorted")
            if table["id"] == "kernels":
                self.rows_differ(name)
                self.filters(table)
                self.shoot("kernels")
            self.done.append(f"{len(table['rows'])} {table['id']}")

    def rows_differ(self, name):
        """The target is in view beside the name, and names that differ are cut so that they do."""
        box = lambda element: self.on.run("const { left, right } = arguments[0].getBoundingClientRect(); return [left, right]", element)
        heads = {head.text.split()[0]: head for head in self.on.find_all(f"{name} [role=columnheader]")}
        self.expect(box(heads["Target"])[1] <= box(self.on.find(f"{name} .scroll"))[1], "the target is out of view")
        cells = [row.find_elements("css selector", ".cell")[0].text for row in self.on.find_all(f"{name} .row")[:40]]
        full = self.on.run("return [...document.querySelectorAll(arguments[0])].slice(0, 40).map((cell) => cell.title)", f"{name} .row .cell:first-child")
        same = [cell for cell, whole in zip(cells, full) if any(cell == one and whole != other for one, other in zip(cells, full))]
        self.expect(not same, f"different functions are shown as {same[:1]}")

    def filters(self, table):
        """A comparison of numbers finds what the data has."""
        for index, column in enumerate(table["columns"]):
            if column["key"] != "registers":
                continue
            numbers = sorted(row[index] for row in table["rows"] if row[index] is not None)
            if not numbers:
                continue
            least = numbers[len(numbers) // 2]
            self.on.run("const field = document.getElementById('search'); field.value = arguments[0]; field.dispatchEvent(new Event('input'))", f"registers>={least}")
            self.frame()
            shown = int(self.on.find("#kernels [role=grid]").get_attribute("aria-rowcount")) - 1
            expected = sum(number >= least for number in numbers)
            self.expect(shown == expected, f"registers>={least} finds {shown} instead of {expected}")
            self.part_of_a_name(table)
            self.on.run("const field = document.getElementById('search'); field.value = ''; field.dispatchEvent(new Event('input'))")
            self.frame()

    def part_of_a_name(self, table):
        """What only looks like a comparison is a word: of kernel<256>, kernel<256."""
        (place,) = [at for at, column in enumerate(table["columns"]) if column["kind"] == "name"]
        names = [" ".join(filter(None, self.data["names"][row[place]])).lower() for row in table["rows"]]
        parts = [part[0] for part in (re.search(r"(?<![a-z_0-9])[a-z]+<\d+", name) for name in names) if part]
        if not parts:
            return
        self.on.run("const field = document.getElementById('search'); field.value = arguments[0]; field.dispatchEvent(new Event('input'))", parts[0])
        self.frame()
        shown = int(self.on.find("#kernels [role=grid]").get_attribute("aria-rowcount")) - 1
        expected = sum(parts[0] in name for name in names)
        self.expect(shown == expected, f"{parts[0]} finds {shown} instead of {expected}")
        self.done.append(f"{expected} with {parts[0]}")

    def timeline(self):
        if not self.on.find_all(".timeline"):
            return
        self.show("#timeline")
        spans = self.on.find_all(".timeline rect.span")
        self.expect(spans, "the timeline has no spans")
        self.on.run("arguments[0].focus()", self.on.find(".timeline"))
        # Shortcuts of the browser stay its own.
        taken = self.on.run("""
            const press = (selector, key) => !document.querySelector(selector).dispatchEvent(
              new KeyboardEvent("keydown", { key, ctrlKey: true, bubbles: true, cancelable: true }));
            return ["+", "-", "0", "ArrowLeft"].filter((key) => press(".timeline", key))""")
        self.expect(not taken, f"the timeline takes Ctrl and {taken}")
        self.on.keys(Keys.ARROW_LEFT)
        self.expect(self.on.find("#timeline [role=status]").text, "nothing is said of the first span")
        self.on.keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
        said = self.on.find("#timeline [role=status]").text
        self.expect(said, "nothing is said of the span")
        self.on.keys(Keys.ENTER)
        self.shoot("zoomed")
        self.on.keys("0")
        self.expect(self.on.find_all(".timeline rect.critical") or not self.data["timeline"]["critical"], "no critical path is drawn")
        self.shoot("timeline")
        for button in self.on.find_all("#timeline button[aria-pressed]"):
            height = lambda: int(self.on.find("#timeline .timeline svg").get_attribute("height"))
            before = height()
            button.click()
            self.frame()
            self.expect(height() > before, "LLVM's passes have no rows")
            self.shoot("passes")
            button.click()
            self.frame()
            self.expect(height() == before, "LLVM's passes do not hide again")
        self.done.append(f"{len(spans)} spans")

    def tabs(self):
        """Tab reaches every section, and leaves it."""
        self.on.run("document.querySelector('nav a').focus()")
        seen = set()
        most = 30 + 20 * len(self.on.find_all("main section"))
        for _ in range(most):
            self.on.keys(Keys.TAB)
            place = self.on.run("const one = document.activeElement; return one === document.body ? '' : (one.closest('section, header') || one).id || one.closest('header, footer, body').tagName")
            seen.add(place)
            if place == "":
                break
        sections = {section.get_attribute("id") for section in self.on.find_all("main section")}
        self.expect(sections <= seen, f"Tab does not reach {sections - seen}")

    def themes(self):
        back = lambda: self.on.run("return getComputedStyle(document.body).backgroundColor")
        colours = {}
        texts = ["body", ".note", ".tile.leaf", ".tile.outer", ".matrix td", ".grid .cell", ".grid .head button", "nav a", ".facts dt", ".legend li", "#theme"]
        for scheme in ("light", "dark"):
            self.on.media(scheme=scheme)
            colours[scheme] = back()
            worst = self.on.run(COLOURS, texts)
            self.expect(worst is None or worst[0] >= LEAST_CONTRAST, f"{scheme}: the contrast of {worst} is too low")
        self.expect(colours["light"] != colours["dark"], "the page does not follow the system's colours")
        self.show("body")
        self.shoot("dark")
        button = self.on.find("#theme")
        seen = []
        for _ in range(3):
            button.click()
            seen.append(back())
        self.expect(seen == [colours["light"], colours["dark"], colours["dark"]], f"the button shows {seen}")
        self.on.media(scheme="light")

    def prints(self):
        self.on.media(kind="print", scheme="dark")
        self.frame()
        self.expect(self.on.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", "print is not light")
        self.expect(not self.on.find("#search").is_displayed(), "print has a search field")
        for grid in self.on.find_all("[role=grid]"):
            rows = len(grid.find_elements("css selector", ".row"))
            self.expect(rows == min(int(grid.get_attribute("aria-rowcount")) - 1, 100), f"a printed table has {rows} rows")
        self.shoot("print")
        self.on.media(scheme="light")
        self.frame()
        pdf = base64.b64decode(self.on.pdf())
        self.expect(pdf.startswith(b"%PDF") and len(pdf) > 5000, "nothing is printed")
        self.done.append(f"PDF of {len(pdf) // 1000} kB")


def all_of(on, reports, screenshots):
    """Checks reports, prints a line for each, and returns the exit code."""
    if screenshots:
        screenshots.mkdir(parents=True, exist_ok=True)
    failed = False
    for report in reports:
        name = pathlib.Path(report).name
        try:
            print(f"{name}: {', '.join(Check(on, report, screenshots).run())}", flush=True)
        except AssertionError as error:
            failed = True
            print(f"{name}: error: {error}", flush=True)
    return 1 if failed else 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("reports", nargs="+")
    arguments.add_argument("--screenshots", type=pathlib.Path)
    options = arguments.parse_args()
    with browser() as on:
        on.size(1280, 900)
        return all_of(on, options.reports, options.screenshots)


if __name__ == "__main__":
    sys.exit(main())
