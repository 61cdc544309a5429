from __future__ import annotations

import pytest

from k2ktui.kafka.auth.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (f'{PLAIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (
            f"{PLAIN} required\n  username='a'\n  password='b' ;\n",
            {"username": "a", "password": "b"},
        ),
        (rf'{PLAIN} required password="a\"b\\c;=";', {"password": 'a"b\\c;='}),
        (rf'{PLAIN} required password="a\101\n";', {"password": "aA\n"}),
        (f'{PLAIN} required password = "a//b /*c*/" ; // note', {"password": "a//b /*c*/"}),
        (f'{PLAIN} REQUIRED /* note */ user_x="1" a=b;', {"user_x": "1", "a": "b"}),
        (f'{PLAIN} required password="pässwörd";', {"password": "pässwörd"}),
        (f'{PLAIN} required password="";', {"password": ""}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_lines(line: str, options: dict[str, str]) -> None:
    entry = parse_jaas(line)
    assert entry.module == "PlainLoginModule"
    assert entry.options == options


@pytest.mark.parametrize(
    "line",
    [
        "",
        "secret",
        f'{PLAIN} required username="a" password="secret"',
        f'{PLAIN} required username="a" password="secret;',
        f'{PLAIN} username="a" password="secret";',
        f'{PLAIN} required username= password="secret";',
        f'{PLAIN} required "secret";',
        f'{PLAIN} required password="secret"; {PLAIN} required;',
        f'KafkaClient {{ {PLAIN} required password="secret"; }};',
    ],
)
def test_errors_quote_nothing(line: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_jaas(line)
    assert "secret" not in str(caught.value)


def test_repr_shows_no_option() -> None:
    assert "secret" not in repr(parse_jaas(f'{PLAIN} required password="secret";'))
