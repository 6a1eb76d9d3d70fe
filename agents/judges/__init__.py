"""Language models that judge: rubrics, prompts, and parsing of verdicts.

Judged texts are fenced, so that they cannot give orders to the judge.
"""
