"""Composition: defaults, groups, bases, _self_, self references, variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_evaluator.config import compose_config
from nemo_evaluator.config.user_settings import config_home
from nemo_evaluator.core.errors import ConfigError


def problems(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        compose_config(path)
    return "\n".join(
        f"{problem.path}: {problem.message} ({problem.hint})" for problem in caught.value.problems
    )


def test_without_defaults_the_file_is_used_as_it_is(write) -> None:
    assert compose_config(write(a="x: {y: null, z: [null]}\n")) == {"x": {"y": None, "z": [None]}}


def test_json_is_yaml(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{\n\t"x": [1, 2.5, true, null, "t"]\n}')
    assert compose_config(file) == {"x": [1, 2.5, True, None, "t"]}


def test_groups_are_wrapped_under_their_key(write) -> None:
    path = write(
        a="defaults: [clusters/small, services/m, output/o/deep]\nx: 1\n",
        conf__clusters__small="type: docker\n",
        conf__services__m="m: {type: gym}\n",
        conf__output__o__deep="dir: d\n",
    )
    assert compose_config(path) == {
        "cluster": {"type": "docker"},
        "services": {"m": {"type": "gym"}},
        "output": {"dir": "d"},
        "x": 1,
    }


def test_the_packaged_cluster_is_found(write) -> None:
    assert compose_config(write(a="defaults: [clusters/local]\n")) == {"cluster": {"type": "local"}}


def test_a_name_without_group_is_merged_at_the_top(write) -> None:
    assert compose_config(write(a="defaults: [part]\nx: {b: 2}\n", conf__part="x: {a: 1}\n")) == {
        "x": {"a": 1, "b": 2}
    }


def test_later_layers_win_lists_are_replaced_nulls_delete(write) -> None:
    path = write(
        a="defaults: [{_base_: b}, {_base_: c}]\nx: {list: [9], gone: null, kept: [{seed: null}]}\ny: 5\n",
        b="x: {list: [1, 2], gone: {deep: 1}, one: b}\ny: {a: 1}\n",
        c="x: {one: c}\n",
    )
    assert compose_config(path) == {
        "x": {"list": [9], "one": "c", "kept": [{"seed": None}]},
        "y": 5,
    }


def test_self_says_where_the_file_itself_stands(write) -> None:
    files = {"b": "x: base\n", "c": "x: other\n"}
    assert compose_config(
        write(a="defaults: [_self_, {_base_: b}, _self_]\nx: own\n", **files)
    ) == {"x": "base"}
    assert compose_config(
        write(a="defaults: [{_base_: b}, _self_, {_base_: c}]\nx: own\n", **files)
    ) == {"x": "other"}
    assert compose_config(write(a="defaults: [{_base_: b}]\nx: own\n", **files)) == {"x": "own"}


def test_bases_are_composed_themselves_and_looked_up_beside_the_file(write) -> None:
    path = write(
        a="defaults: [{_base_: deep/b}]\n",
        deep__b="defaults: [{_base_: c}, part]\nb: 1\n",
        deep__c="c: 1\n",
        conf__part="p: 1\n",
    )
    assert compose_config(path) == {"b": 1, "c": 1, "p": 1}


def test_the_users_own_folder_comes_after_conf(write) -> None:
    own = config_home() / "conf" / "services"
    own.mkdir(parents=True)
    (own / "m.yml").write_text("m: user\n")
    (own / "n.yml").write_text("n: user\n")
    path = write(a="defaults: [services/m, services/n]\n", conf__services__m="m: conf\n")
    assert compose_config(path) == {"services": {"m": "conf", "n": "user"}}


def test_a_diamond_is_no_circle(write) -> None:
    path = write(
        a="defaults: [{_base_: b}, {_base_: c}]\n",
        b="defaults: [{_base_: d}]\nb: 1\n",
        c="defaults: [{_base_: d}]\nc: 1\n",
        d="d: 1\n",
    )
    assert compose_config(path) == {"b": 1, "c": 1, "d": 1}


def test_a_circle_is_named(write) -> None:
    assert "a.yaml -> b.yaml -> a.yaml" in problems(
        write(a="defaults: [{_base_: b}]", b="defaults: [{_base_: a}]")
    )
    assert "a.yaml -> a.yaml" in problems(write(a="defaults: [{_base_: a}]"))


def test_all_missing_files_are_named_with_near_ones(write) -> None:
    said = problems(
        write(a="defaults: [services/modle, {_base_: bse}]", conf__services__model="{}", base="{}")
    )
    assert "defaults[0]: no file for 'services/modle' (did you mean 'services/model'?)" in said
    assert "defaults[1]: no file for 'bse' (did you mean 'base'?)" in said


def test_references_keep_types_and_chain(write) -> None:
    path = write(
        a="""
_common: {model: m, size: 5, on: true, list: [1, {deep-key: x}]}
first: ${.second}
second: ${._common.size}
text: "${._common.model}-${._common.size}-${._common.on}"
whole: ${._common.list}
item: ${._common.list[1].deep-key}
dotted: ${._common.list.0}
left: $${.not.a.reference}
"""
    )
    assert compose_config(path) == {
        "first": 5,
        "second": 5,
        "text": "m-5-true",
        "whole": [1, {"deep-key": "x"}],
        "item": "x",
        "dotted": 1,
        "left": "$${.not.a.reference}",
    }


def test_variables_come_through_bases_and_are_dropped_only_at_the_top(write) -> None:
    path = write(a="defaults: [{_base_: b}]\nx: {_kept: '${._v}'}\n", b="_v: 7\n")
    assert compose_config(path) == {"x": {"_kept": 7}}


def test_unknown_references_and_circles_are_errors(write) -> None:
    said = problems(
        write(
            a="x: ${.nope}\ny: [1, 'a ${.z.hst}']\nz: {host: h}\na: ${.b}\nb: ${.a}\nc: {d: '${.c}'}\n"
        )
    )
    assert "x: ${.nope} does not exist in this config" in said
    assert "y[1]: ${.z.hst} does not exist in this config (did you mean ${.z.host}?)" in said
    assert "a: references form a circle" in said
    assert "c.d: references form a circle" in said


def test_a_fragment_that_is_no_mapping(write) -> None:
    assert "must be a mapping" in problems(write(a="defaults: [part]", conf__part="- 1\n"))
