"""Answers of people in a browser: buttons beside a command on the page, and the page behind a link of a chat."""

import base64
import hashlib
import hmac
import json
import time

SECRET = "0123456789abcdef0123456789abcdef"
DOMAIN = b"loopwarden answer link 1\n"
# A chat that nobody listens at: its links are what counts here.
SETTINGS = """
[http]
public_url = "https://warden.example"
link_secret_file = "link-secret"
[[webhook]]
name = "chat"
url = "http://127.0.0.1:9/hook"
format = "slack"
"""


def settings(directory):
    """A file with the settings of links, for the process to run with."""
    (directory / "link-secret").write_text(SECRET)
    file = directory / "links.toml"
    file.write_text(SETTINGS)
    return file


def link(answer, session, seconds):
    """The path of a link, as src/webhook/link.rs signs it."""
    fields = [answer, int((time.time() + seconds) * 1000), "chat", "0" * 26, "0" * 26, "", session, "main", False]
    payload = json.dumps(fields).encode()
    mac = hmac.new(SECRET.encode(), DOMAIN + payload, hashlib.sha256).digest()
    return "/a/" + base64.urlsafe_b64encode(payload + mac).decode().rstrip("=")


def answer_on_the_page(browser):
    """Buttons beside what was told, within reach of the keyboard; what became of it is said there."""
    row = "[...document.querySelectorAll('#feed li')].find(li => li.textContent.includes('<img') && li.querySelector('.answers'))"
    button = lambda label: f"[...{row}.querySelectorAll('.answers button')].find(button => button.textContent === '{label}')"
    browser.wait("a command has a button for each answer", f"[...{row}.querySelectorAll('.answers button')].map(button => button.textContent).join()"
                 " === 'Right,False alarm,Allow 1 h,Stop 1 h'")
    browser.value(f"{button('False alarm')}.focus()")
    browser.key("Enter")
    browser.wait("a false alarm is in force", f"{row}.querySelector('.answers [role=status]').textContent === 'False alarm: in force'")
    browser.value(f"{button('Stop 1 h')}.click()")
    browser.wait("a stop is in force, and shown with the others", f"{row}.querySelector('.answers [role=status]').textContent === 'Stop 1 h: in force'"
                 " && document.querySelector('#stops').textContent.includes('<img')")
    if browser.value("document.querySelectorAll('main img').length") != 0:
        raise SystemExit("browser: a name was read as markup")


def answer_by_a_link(browser, address):
    """The page of a link says what it would do, its form does it, and its policy lets no more happen."""
    browser.go(f"http://{address}{link('stop', '<b>linked</b>', 60)}")
    browser.wait("a link asks once more", "document.querySelector('h1')?.textContent === 'Stop 1 h?' && document.querySelectorAll('b').length === 0"
                 " && document.body.textContent.includes('Nothing has happened yet') && document.body.textContent.includes('<b>linked</b>')")
    browser.leave("document.querySelector('input').value = 'Ann'; document.querySelector('button').click();")
    browser.wait("the form answers", "document.querySelector('h1')?.textContent === 'Answered'"
                 " && document.body.textContent.includes('It is in force.')")
    browser.go(f"http://{address}/?stopped")
    browser.wait("and the stop has its actor", "[...document.querySelectorAll('#stops li')].some(row => row.textContent.includes('<b>linked</b>')"
                 " && row.textContent.includes('by link:chat'))")
