"""Drives Debian's Chromium through Debian's chromedriver, which always has the version of the browser."""

import contextlib
import pathlib

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

# Chromium's sandbox needs namespaces that containers and root lack; the pages are our own.
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--force-device-scale-factor=1", "--window-size=1280,900", "--force-color-profile=srgb"]


class Browser:
    """One open browser."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path):
        """Opens a page, and returns the milliseconds until all of it is on the screen, by the browser's clock."""
        # Nothing is left of an earlier page.
        self.driver.get("about:blank")
        self.messages()
        self.driver.get(pathlib.Path(path).resolve().as_uri())
        return self.driver.execute_async_script("""
            const done = arguments[0];
            const look = () => { const [shown] = performance.getEntriesByName("shown"); if (shown) done(shown.startTime); else setTimeout(look, 5); };
            look();""")

    def search(self, text):
        """Searches, and returns the milliseconds until the result is on the screen."""
        return self.driver.execute_async_script("""
            const [text, done] = arguments, field = document.getElementById("search"), begin = performance.now();
            field.value = text;
            field.dispatchEvent(new Event("input"));
            // The page searches in the next frame; in the one after it, the result has been drawn.
            requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin))));""", text)

    def processor_time(self):
        """Milliseconds of processor time that the page's main thread has taken."""
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        return 1000 * next(one["value"] for one in metrics if one["name"] == "TaskDuration")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def messages(self):
        """What the console says since the last call."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def keys(self, *keys):
        """Presses keys, whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def hover(self, element):
        webdriver.ActionChains(self.driver).move_to_element(element).perform()

    def active(self):
        return self.driver.switch_to.active_element

    def media(self, kind="", scheme="light"):
        """Emulates a medium ("print") and the preferred colour scheme."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})

    def pdf(self):
        """The page as Chromium prints it, in base64."""
        return self.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def screenshot(self, path):
        self.driver.save_screenshot(str(path))


@contextlib.contextmanager
def browser():
    """A browser that ends with the block."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        # Pages of ten megabytes on a busy machine.
        driver.set_script_timeout(120)
        yield Browser(driver)
    finally:
        driver.quit()


__all__ = ["Browser", "Keys", "browser"]
