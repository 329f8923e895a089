"""Functions that a step calls instead of having them written out: tables and the like, by CasADi's own C."""

from __future__ import annotations

import casadi as ca

from dalembert.engine.graph import Unwritable


def called(functions: list[ca.Function]) -> str:
    """C for functions `da_call0, da_call1, ...`: each gives one nonzero of the outputs from the nonzeros of all arguments."""
    if not functions:
        return ""
    for function in functions:
        if any("Callback" in f.class_name() for f in (function, *function.find_functions())):
            raise Unwritable(f"{function.name()} is a callback, which cannot be written in C")
    generator = ca.CodeGenerator("called", {"with_header": False, "casadi_int": "int"})
    parts = []
    for k, function in enumerate(functions):
        generator.add(_wrapped(function, f"da_wrapped{k}"))
        parts.append(_wrapper(function, k))
    code = generator.dump()
    if "#error" in code:
        raise Unwritable(f"one of {', '.join(f.name() for f in functions)} cannot be written in C")
    return "\n".join(["#define CASADI_SYMBOL_EXPORT static", code, *parts])


def _wrapped(function: ca.Function, name: str) -> ca.Function:
    """The same under a name of its own."""
    arguments = [ca.MX.sym(f"i{k}", function.sparsity_in(k)) for k in range(function.n_in())]
    try:
        return ca.Function(name, arguments, function.call(arguments, False, True))
    except RuntimeError as error:
        raise Unwritable(f"{function.name()} cannot be written in C") from error


def _wrapper(function: ca.Function, k: int) -> str:
    wrapped = _wrapped(function, f"da_wrapped{k}")
    counts = [function.nnz_in(i) for i in range(function.n_in())]
    sizes = [function.nnz_out(i) for i in range(function.n_out())]
    starts = [sum(counts[:i]) for i in range(len(counts))]
    places = [sum(sizes[:i]) for i in range(len(sizes))]
    arguments = " ".join(f"arg[{i}] = in + {s};" for i, s in enumerate(starts))
    results = " ".join(f"res[{i}] = out + {s};" for i, s in enumerate(places))
    return f"""
static double da_call{k}(int which, const double *in)
{{
    const double *arg[{wrapped.sz_arg() + 1}];
    double *res[{wrapped.sz_res() + 1}], w[{wrapped.sz_w() + 1}], out[{sum(sizes) + 1}];
    int iw[{wrapped.sz_iw() + 1}];
    {arguments} {results}
    da_wrapped{k}(arg, res, iw, w, 0);
    return out[which];
}}
"""
