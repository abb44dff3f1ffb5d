"""Prints, as JSON, the SQL that each migration of the installed Django packages sends to an empty database."""

import json
import os
import sys
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings

APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.admin",
    "django.contrib.sessions",
    "django.contrib.sites",
    "django.contrib.flatpages",
    "django.contrib.redirects",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.mfa",
    "allauth.usersessions",
    "oauth2_provider",
    "django_celery_beat",
    "taggit",
    "wagtail.contrib.forms",
    "wagtail.contrib.redirects",
    "wagtail.contrib.search_promotions",
    "wagtail.embeds",
    "wagtail.users",
    "wagtail.documents",
    "wagtail.images",
    "wagtail.search",
    "wagtail.admin",
    "wagtail",
]

url = urlsplit(os.environ["DATABASE_URL"])
settings.configure(
    INSTALLED_APPS=APPS,
    SECRET_KEY="recording",
    USE_TZ=True,
    SITE_ID=1,
    STATIC_URL="/static/",
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    MIDDLEWARE=["allauth.account.middleware.AccountMiddleware"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(url.path[1:]),
            "HOST": url.hostname,
            "PORT": url.port,
            "USER": unquote(url.username or ""),
            "PASSWORD": unquote(url.password or ""),
        }
    },
)
django.setup()

from django.db import connection  # noqa: E402
from django.db.migrations import RunPython  # noqa: E402
from django.db.migrations.loader import MigrationLoader  # noqa: E402
from django.db.migrations.state import ProjectState  # noqa: E402

run_code = RunPython.database_forwards
in_code = False
statements = []


def run_unrecorded(*args):
    """What code sends depends on the rows that it meets: only its place is recorded, as null."""
    global in_code
    in_code = True
    run_code(*args)
    in_code = False
    statements.append(None)


RunPython.database_forwards = run_unrecorded


def recorded(migration, state):
    statements.clear()

    def note(execute, sql, params, many, context):
        text = str(sql).strip()
        if not in_code and not text.upper().startswith("SELECT"):
            if params:
                raise ValueError(f"{migration}: parameters are not recorded: {text}")
            statements.append(text)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note), connection.schema_editor(atomic=migration.atomic) as editor:
        state = migration.apply(state, editor)
    while statements and statements[-1] is None:
        statements.pop()
    while statements and statements[0] is None:
        statements.pop(0)
    return list(statements), state


graph = MigrationLoader(None, replace_migrations=False).graph
state = ProjectState()
seen = set()
migrations = []
for leaf in sorted(graph.leaf_nodes()):
    for node in graph.forwards_plan(leaf):
        migration = graph.nodes[node]
        # What a squashed migration replaces is there as well.
        if node in seen or migration.replaces:
            continue
        seen.add(node)
        sent, state = recorded(migration, state)
        if sent:
            migrations.append({"name": ".".join(node), "atomic": migration.atomic, "statements": sent})
json.dump(migrations, sys.stdout)
