"""XML: what is refused, and that each message says where."""

import numpy as np
import pytest

import dalembert as da
from dalembert.mechanisms.markup import content, parsed

LAUGHS = b"""<!DOCTYPE lolz [<!ENTITY a "lol">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
]><robot name="x">&c;</robot>"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "declares entities"),
        (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declares entities"),
        (b'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://a.b/c"> %x;]><a/>', "declares entities"),
        (b'<!DOCTYPE a SYSTEM "http://a.b/c.dtd"><a/>', "refers to other files"),
        (b"", "no element found"),
        (b"<a>\n<b>\n</a>", "line 3: no well-formed XML, mismatched tag"),
        (b'<a b="1" b="2"/>', "duplicate attribute"),
        (b"\x00\x01\x02", "no well-formed XML"),
        (b'<?xml version="1.0" encoding="none"?><a/>', "unknown encoding"),
        (b"<a>" * 1001 + b"</a>" * 1001, "more than 1000 deep"),
    ],
)
def test_hostile_and_broken_text_is_refused(text, message):
    with pytest.raises(da.FileError, match=message):
        parsed(text, "robot.urdf")


def test_nodes_know_their_lines():
    root = parsed(b'<a>\n <b name="x" size="1 2.5 -3e-2"/>\n <b/>\n</a>', "f")
    assert root.children[0].where == "f, line 2, <b> 'x'"
    np.testing.assert_array_equal(root.children[0].numbers("size", 3), [1.0, 2.5, -0.03])
    assert [child.line for child in root.all("b")] == [2, 3]
    with pytest.raises(da.ModelError, match="f, line 3, <b>: a second <b>"):
        root.one("b")


@pytest.mark.parametrize("text", ["1 2", "1 2 x", "1 2 nan", "1 2 inf", "1 2 1_0", "1 2 1e400", "1 2 0x1", "", "1,2,3"])
def test_what_is_no_number_is_refused(text):
    node = parsed(f'<a>\n<b size="{text}"/></a>'.encode(), "f").children[0]
    with pytest.raises(da.ModelError, match=r"f, line 2, <b>: size (must be 3 numbers|is too large)"):
        node.numbers("size", 3)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(da.FileError, match="cannot be read"):
        content(tmp_path / "none.urdf")
    with pytest.raises(da.FileError, match="cannot be read"):
        content(tmp_path)
    huge = tmp_path / "huge.urdf"
    with huge.open("wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(da.FileError, match="65 MiB"):
        content(huge)
