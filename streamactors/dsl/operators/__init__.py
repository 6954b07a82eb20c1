"""The operators of Source and Flow: one mix-in per topic, one short method per operator. The stage's docstring has the contract.

base.py has the helpers of the methods (`self._via(stage)`). all_operators.py joins the mix-ins; a new mix-in is added there."""
