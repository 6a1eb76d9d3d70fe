"""Language models that judge: rubrics, prompts in which nothing judged can give orders, verdicts read with care."""
