"""A check for schemathesis: the code of an error is listed for its route and status."""

import schemathesis


@schemathesis.check
def code_is_listed(ctx, response, case):
    """Compare the code of a problem with ``x-codes`` of the response in the document."""
    if not response.headers["content-type"][0].startswith("application/problem+json"):
        return
    described = case.operation.definition.raw["responses"].get(str(response.status_code))
    if described is not None and case.method.lower() == case.operation.method:
        assert response.json()["code"] in described["x-codes"]
