"""The errors of a PostgreSQL server that refuses a connection: a text without a code, in the language of the server."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import OperationalError

from perfrunner.errors import EXIT_AWAY, EXIT_USAGE
from perfrunner.results.database_errors import explain

PLACE = "postgresql://perfrunner@db/results"
REFUSED = [
    'FATAL:  password authentication failed for user "perfrunner"',
    'FATAL:  database "nosuch" does not exist',
    'FATAL:  role "nobody" is not permitted to log in',
    'FATAL:  permission denied for database "secret"',
    'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "nobody", database "results", no encryption',
    "FATAL:  Passwort-Authentifizierung für Benutzer »perfrunner« fehlgeschlagen",
    "FATAL:  Datenbank »nosuch« existiert nicht",
    "FATAL:  authentification par mot de passe échouée pour l'utilisateur  « perfrunner »",
    "FATAL:  no existe la base de datos «nosuch»",
    'ВАЖНО:  пользователь "perfrunner" не прошёл проверку подлинности (по паролю)',
    'FATAL:  データベース"nosuch"は存在しません',
    '致命错误:  用户 "perfrunner" Password 认证失败',
    '치명적오류:  "nosuch" 데이터베이스 없음',
]
AWAY = [
    "Connection refused",
    "FATAL:  the database system is starting up",
    "FATAL:  sorry, too many clients already",
    'FATAL:  too many connections for role "perfrunner"',
    'FATAL:  could not open file "base/5/2601": Too many open files in system',
    "FATAL:  tut mir leid, schon zu viele Verbindungen",
    "FATAL:  le système de base de données s'arrête",
    "致命错误:  数据库系统启动中",
]


@pytest.mark.parametrize(
    ("text", "code"),
    [*((text, EXIT_USAGE) for text in REFUSED), *((text, EXIT_AWAY) for text in AWAY)],
)
def test_a_refused_login_is_no_server_that_is_away(text: str, code: int) -> None:
    cause = Exception(f'connection to server at "10.0.0.2", port 5432 failed: {text}')
    error = explain(OperationalError(None, None, cause), PLACE, 1.0)
    assert error.exit_code == code
    if code == EXIT_USAGE:
        assert "password" in (error.hint or "")
