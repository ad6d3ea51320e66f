# SPDX-License-Identifier: MIT
"""A program in a pseudo-terminal, and what is on its screen: as much of an xterm as curses makes use of."""
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"
SEQUENCE = re.compile(r"\x1b(?:\[([?>]?)([0-9;]*)([@-~])|[()].|[=>78M])")


class Screen:
    """The cells, after some output."""

    def __init__(self, lines, columns):
        self.lines, self.columns = lines, columns
        self.row = self.column = 0
        self.cells = [[" "] * columns for _ in range(lines)]
        self.last = " "

    def text(self):
        return ["".join(row).rstrip() for row in self.cells]

    def put(self, character):
        self.last = character
        if self.column >= self.columns:
            self.column, self.row = 0, min(self.row + 1, self.lines - 1)
        self.cells[self.row][self.column] = character
        self.column += 1

    def control(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row = min(self.row + 1, self.lines - 1)
        elif character == "\b":
            self.column = max(min(self.column, self.columns) - 1, 0)
        else:
            raise AssertionError(f"control character {character!r}")

    def erase(self, row, start, end):
        for column in range(max(start, 0), min(end, self.columns)):
            self.cells[row][column] = " "

    def erase_display(self, how):
        if how != 1:
            self.erase(self.row, self.column, self.columns)
        for row in range(0 if how else self.row + 1, self.lines):
            if how == 2 or row > self.row:
                self.erase(row, 0, self.columns)

    def obey(self, private, words, final):
        numbers = [int(word or 0) for word in words.split(";")]
        first = numbers[0] or 1
        row, column = self.row, min(self.column, self.columns - 1)
        if private or final in "mhltrn":
            return
        if final == "H":
            row, column = first - 1, (numbers + [1])[1] - 1 if len(numbers) > 1 else 0
        elif final == "d":
            row = first - 1
        elif final == "G":
            column = first - 1
        elif final in "AB":
            row += first if final == "B" else -first
        elif final in "CD":
            column += first if final == "C" else -first
        elif final == "J":
            self.erase_display(numbers[0])
        elif final == "K":
            self.erase(row, 0 if numbers[0] else column, column + 1 if numbers[0] == 1 else self.columns)
        elif final == "X":
            self.erase(row, column, column + first)
        elif final == "P":
            del self.cells[row][column : column + first]
            self.cells[row] += [" "] * (self.columns - len(self.cells[row]))
        elif final == "@":
            self.cells[row][column:column] = [" "] * first
            del self.cells[row][self.columns :]
        elif final in "LM":
            for _ in range(first):
                del self.cells[self.lines - 1 if final == "L" else row]
                self.cells.insert(row if final == "L" else self.lines - 1, [" "] * self.columns)
        elif final == "b":
            for _ in range(first):
                self.put(self.last)
            return
        else:
            raise AssertionError(f"sequence {words}{final}")
        self.row = min(max(row, 0), self.lines - 1)
        self.column = min(max(column, 0), self.columns - 1)

    def feed(self, text):
        at = 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            if found:
                if found.group(3):
                    self.obey(*found.groups())
                at = found.end()
            elif text[at] == "\x1b":
                return  # the rest has not come yet
            else:
                (self.put if text[at] >= " " else self.control)(text[at])
                at += 1


class Program:
    """Runs in a pseudo-terminal of so many lines and columns until the end of the with block."""

    def __init__(self, words, lines=24, columns=120, **variables):
        self.size = lines, columns
        self.resized_at = 0
        self.output = ""
        self.bytes = b""
        self.status = None
        environment = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8")
        for name in ("LINES", "COLUMNS", "NO_COLOR"):
            environment.pop(name, None)
        environment.update(variables)
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
            os.execve(words[0], words, environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.master)

    def read(self, seconds):
        """What there is within the time; False at the end of all."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.master, 65536)
        except OSError:
            more = b""
        self.bytes += more
        self.output = self.bytes.decode("utf-8", "ignore")
        return more != b""

    def screen(self):
        screen = Screen(*self.size)
        screen.feed(self.output[self.resized_at :])
        return screen.text()

    def until(self, true, what):
        """Waits until true(lines of the screen)."""
        limit = time.monotonic() + 40
        while not true(self.screen()):
            goes_on = self.read(0.05)
            assert goes_on and time.monotonic() < limit, (what, self.screen(), self.output[-500:])

    def press(self, keys):
        os.write(self.master, keys.encode())

    def resize(self, lines, columns):
        """Everything is drawn anew then."""
        while self.read(0.05) and select.select([self.master], [], [], 0)[0]:
            pass
        self.size = lines, columns
        self.resized_at = len(self.output)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))

    def kill(self, signal):
        os.kill(self.pid, signal)

    def ends(self):
        """Its exit status, or minus the signal."""
        limit = time.monotonic() + 40
        while self.read(0.05) and time.monotonic() < limit:
            pass
        while time.monotonic() < limit:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                return self.status
            time.sleep(0.01)
        raise AssertionError("it does not end")

    def is_raw(self):
        return not termios.tcgetattr(self.master)[3] & termios.ICANON
