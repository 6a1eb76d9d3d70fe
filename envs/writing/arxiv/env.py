"""Two authors write the introduction of a paper from its abstract.

`background` writes what is known and why the problem matters, `method` what is done and what follows. They write at
the same time and see only the abstract, yet the reward is for texts that fit each other: in length, vocabulary and
style.

## Observation

At the start a prompt of at most 45 words that states the task, the length and the ratio asked for, then the title
(where there is one) and the abstract. After the turn nothing.

## Action

Any text. The first `max_length` characters count. Silence is an empty text. Bytes are decoded, lone surrogates become
`?`, anything that is no text counts as empty; each of these, and a text that was cut, adds to the metric `illegal`.

With `agents=1` the one agent `writer` writes both texts, with `[PARAGRAPH_SPLIT]` between them. Without that marker
its text is parted at the first label `Paragraph 2:`, and without that after the first third of its characters.

## Rewards

All agents receive the same reward. With n₁, n₂ the white-space tokens of background and method text, ρ the characters
of the method text over those of the background text, u the same for different words (lower-cased runs of letters and
digits, stop words included), k the kinds of transition in both texts, and J the overlap |A ∩ B| / |A ∪ B| of the words
that are no stop words:

1. `length` gives 0.5 if 128 ≤ n₁, n₂ ≤ 256; otherwise everything stops.
2. `ratio` gives 1 if 1.3 ≤ ρ ≤ 1.6, rises as (ρ − 0.8) / 0.5 from 0.8 to 1.3, falls as 1 − (ρ − 1.6) / 0.4 from 1.6 to
   2.0; outside 0.8 to 2.0 the rest stops.
3. `unique` gives 0.5 if 0.7 ≤ u ≤ 1.3, rises as 0.5 · (u − 0.5) / 0.2 from 0.5 to 0.7, falls as 0.5 · (1 − (u − 1.3) /
   0.4) from 1.3 to 1.7; outside 0.5 to 1.7 the rest stops.
4. `transitions` gives 0.4 · T with T = 0 if k = 0, else T = min(1, 0.4 + 0.05 · (k − 1)), and `overlap` gives 0.6 ·
   min(J, 0.23) / 0.23.

All bounds are inclusive: exactly at an outer limit a level gives 0 and the next one is open. The nominal maximum is 3;
with twelve kinds T is at most 0.95, so 2.98 can be reached. `gated=False` gives every component by itself; two silent
agents then earn the 0.6 of `overlap`, for J of two texts without words is 1.

Metrics that are no reward: `words_background`, `words_method`, `characters_ratio` (ρ), `unique_ratio` (u), `jaccard`
(J), `transition_kinds` (k), `gated_total`, `ungated_total`, `illegal`, and two that show a policy which found a hole:

* `repeated_sentence_share`: the share of sentences that occurred earlier in the same text;
* `off_topic_share`: the share of sentences without any word of title and abstract that has at least four letters and
  is no stop word (a plural s makes no difference).

With `grammar="sample"` a third: `ill_formed_share`, the share of sentences that the texts which the tiny model imitates
could not hold, with whichever words in their slots. Of models that write freely it says nothing.

With `agents=1` also `marker`: 1 if the text held the marker.

Guards against holes, all off by default: `ending="."` stops at level 1 a text that was cut off; `match="word"` counts
transitions only as whole words (as published, "so" is found in "also"); `lexicon=` and `stopwords=` take other lists.

## Termination

After one turn.

## Data

`tasks="sample"` are 96 abstracts written for this project, `tasks="generated:SEED:COUNT"` as many others by the same
generator: `generated:0:96` are the sample's rows, and smaller sets of a seed begin larger ones. No combination of
field, data, problem, method and measure of theirs occurs in the texts that the tiny model imitates.

The public data set is `hf:OpenMLRL/arXiv_abstract` (fields
`article_id`, `abstract_text`, `token_count`; for example `hf:OpenMLRL/arXiv_abstract:train[:1100]`). Any file with
`abstract_text` will do; `article_id` names a task, `title` is shown where present.

## Differences from the publication

The reward is that of CoMLRL's arXiv task (arXiv:2508.04652; OpenMLRL/LLM_Collab_Writing, `rewards/arxiv_rewards.py`),
with these differences: the lexicon of twelve kinds of transition and the stop words are our own lists; the prompts
are our own. The docstring and the evaluation's logger of the publication name other ranges for ρ than the reward's
code; we use those of the code. With `match="substring"` both texts are joined without a gap before the search, as
published. Scores are comparable with published ones only with the published lists given by `lexicon=` and `stopwords=`.

## Version history

* v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from palaver.envs.base.env import MAX_LENGTH, TextEnv
from palaver.envs.base.tasks import Task
from palaver.envs.writing.arxiv import corpus
from palaver.envs.writing.env import Grammar, WritingEnv, read_grammar
from palaver.envs.writing.reward import WEIGHTS, Range, Where, WritingRewardConfig
from palaver.envs.writing.text import LexiconSource, Match, StopwordSource


class ArxivEnv(WritingEnv):
    """Background and method of an introduction; see the module's docstring for the reward.

    Args:
        tasks: `sample`, `generated:SEED:COUNT`, a path, or `hf:NAME:SPLIT`; a slice may follow.
        agents: 2, or 1 for the single author `writer`.
        length: fewest and most white-space tokens of each text.
        ratio: range of ρ with the full reward.
        ratio_limits: values of ρ where the reward has fallen to 0; outside, the remaining levels give 0.
        unique: range of u with the full reward.
        unique_limits: values of u where the reward has fallen to 0; outside, the remaining levels give 0.
        transition_base: T for one kind of transition.
        transition_step: what every further kind adds to T.
        jaccard_cap: the overlap J with the full reward.
        weights: the weight of each component; those left out keep theirs.
        lexicon: kinds of transition, as a mapping of kind to expressions or a YAML or JSON file; None is the built-in.
        stopwords: words left out of J, as a list or a YAML or JSON file; None is the built-in list.
        match: `substring` as published, `word` as corrected.
        transitions_in: the texts searched for transitions, `both` or `second`.
        gated: False opens every level regardless of the others.
        ending: what each text must end with to pass level 1; empty requires nothing.
        grammar: `sample` measures `ill_formed_share`; None does not.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action.

    Raises:
        ConfigError: a value that does not fit; the message begins with the keyword.
        TaskError: tasks that cannot be read.
    """

    metadata: ClassVar[dict[str, Any]] = {**TextEnv.metadata, "name": "arxiv_v0"}
    agent_names = ("background", "method")

    def __init__(
        self,
        tasks: str | Path = "sample",
        agents: int = 2,
        length: tuple[int, int] = (128, 256),
        ratio: Range = (1.3, 1.6),
        ratio_limits: Range = (0.8, 2.0),
        unique: Range = (0.7, 1.3),
        unique_limits: Range = (0.5, 1.7),
        transition_base: float = 0.4,
        transition_step: float = 0.05,
        jaccard_cap: float = 0.23,
        weights: Mapping[str, float] = WEIGHTS,
        lexicon: LexiconSource = None,
        stopwords: StopwordSource = None,
        match: Match = "substring",
        transitions_in: Where = "both",
        gated: bool = True,
        ending: str = "",
        grammar: Grammar = None,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        rubric = WritingRewardConfig(
            length=length,
            ratio=ratio,
            ratio_limits=ratio_limits,
            unique=unique,
            unique_limits=unique_limits,
            transition_base=transition_base,
            transition_step=transition_step,
            jaccard_cap=jaccard_cap,
            weights=weights,
            lexicon=lexicon,
            stopwords=stopwords,
            match=match,
            transitions_in=transitions_in,
            gated=gated,
            ending=ending,
        )
        super().__init__(
            corpus.load(tasks),
            agents,
            rubric,
            grammar=read_grammar(grammar, corpus.grammar),
            source=tasks,
            render_mode=render_mode,
            max_length=max_length,
        )

    def prompt(self, agent: str, task: Task) -> str:
        """The prompt with title and abstract."""
        return corpus.opening(agent, _title(task), task["abstract_text"], self.rubric.length, self.rubric.ratio)

    def subject(self, task: Task) -> str:
        """Title and abstract."""
        return f"{_title(task)}\n{task['abstract_text']}"


def _title(task: Task) -> str:
    return str(task.data.get("title") or "")
