"""Expressions that have to give the same values, shapes and dtypes here and in PyTorch, where that is installed."""

import numpy as np
import pytest

import adjoint

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
DATA = {
    "F": RNG.standard_normal((3, 4)).astype(np.float32),
    "G": RNG.standard_normal((3, 4)).astype(np.float32),
    "I": RNG.integers(-5, 6, (3, 4)),
    "J": RNG.integers(1, 4, (3, 4)),
    "B": RNG.random((3, 4)) > 0.5,
    "M": RNG.standard_normal((4, 5)).astype(np.float32),
    "V": RNG.standard_normal(4).astype(np.float32),
    "BT": RNG.standard_normal((2, 3, 4)).astype(np.float32),
    "B2": RNG.standard_normal((2, 4, 5)).astype(np.float32),
}
DATA["P"] = abs(DATA["F"]) + np.float32(0.1)

#: By family; `m` is the library, `t` its function that makes tensors.
EXPRESSIONS = [
    """
    F+G; F-G; F*G; F/G; I+F; I*2; I*2.5; I/J; I//J; F//G; I%J; F%G; F%0.7; m.fmod(F,G); m.fmod(I,J); F**2;
    P**0.5; P**1.7; P**G; I**3; J**J; 2**F; 1-F; 1/P; 3//J; 3%J; -F; abs(F); F+True; B+B; B*F; B&(F>0);
    B|(F>0); B^(F>0); ~B
    """,
    """
    F==G; F!=0; F<G; F<=0.; F>G; F>=G; I==J; I<2.5; B==True; B>False
    """,
    """
    F.exp(); F.exp2(); F.expm1(); P.log(); P.log2(); P.log10(); P.log1p(); P.sqrt(); P.rsqrt();
    F.reciprocal(); F.sin(); F.cos(); F.tan(); F.sinh(); F.cosh(); F.tanh(); F.sigmoid(); F.erf(); F.erfc();
    F.floor(); F.ceil(); F.trunc(); F.frac(); F.round(); (F*2).round(); F.round(decimals=1); F.square();
    I.square(); F.sign(); I.sign(); F.relu(); I.exp(); I.sqrt(); F.abs(); I.abs(); m.deg2rad(F);
    m.nan_to_num(F/0); m.logit(F.sigmoid()); F.softmax(1); m.softmax(F, dim=0); F.log_softmax(-1)
    """,
    """
    F.clamp(-.5,.5); F.clamp(min=0); F.clamp(max=0.3); I.clamp(-1,2); F.clamp(G, G+1); F.clamp_min(.1);
    m.clip(F,0,1); m.lerp(F,G,.3); m.addcmul(F,G,P,value=.5); m.addcdiv(F,G,P,value=2); F.add(G,alpha=2);
    F.sub(G,alpha=.5); m.rsub(F,G); m.maximum(F,G); m.minimum(I,J); m.div(F,G,rounding_mode='floor');
    m.div(I,J,rounding_mode='trunc'); m.div(F,G,rounding_mode='trunc'); m.true_divide(I,J);
    m.float_power(F.abs(),2)
    """,
    """
    F.sum(); F.sum(0); F.sum((0,1)); F.sum(1,True); F.sum(dim=1,keepdim=True); F.sum(axis=0); I.sum();
    B.sum(); B.sum(0); F.sum(dtype=m.float64); F.prod(); F.prod(1); I.prod(0); F.mean(); F.mean(0);
    F.mean((0,1),keepdim=True); F.var(); F.var(0); F.var(dim=1,unbiased=False);
    F.var(1,correction=0,keepdim=True); F.var(False); F.std(); F.std(0); m.var_mean(F,1)[0];
    m.var_mean(F,1)[1]; m.std_mean(F)[0]
    """,
    """
    F.max(); F.min(); F.max(1)[0]; F.max(1).indices; F.min(0).values; F.min(0)[1];
    F.max(dim=0,keepdim=True)[0]; m.max(F,G); F.amax(0); F.amin((0,1)); I.max(); I.min(1)[1]; F.argmax();
    F.argmin(); F.argmax(1); F.argmin(1,keepdim=True); I.argmin(0); F.aminmax()[0]; B.any(); B.all();
    B.any(1); B.all(0); I.any(0); I.count_nonzero(); m.count_nonzero(B,0); F.logsumexp(1); F.norm();
    F.norm(1); F.norm(p=2,dim=1); F.norm(float('inf')); F.norm(3,0); F.norm(0); F.cumsum(1); I.cumsum(0);
    F.cumprod(1); B.cumsum(1)
    """,
    """
    F.view(4,3); F.view(-1); F.reshape(2,-1); F.T; F.t(); BT.mT; BT.transpose(1,2); BT.permute(2,0,1);
    BT.flatten(1); BT.flatten(0,1); F.unsqueeze(0); F.unsqueeze(-1); F.unsqueeze(1).squeeze(1); F.squeeze();
    BT.unflatten(2,(2,2)); BT.movedim(0,2); V.expand(3,4); V.expand(3,-1); V.repeat(2,3); F.repeat(2,1);
    m.tile(V,(2,)); V.repeat_interleave(2); F.repeat_interleave(2,1); F.narrow(1,1,2); F.select(0,1);
    F.unbind()[1]; F.split(2,1)[1]; F.split([1,2])[1]; F.chunk(2,1)[0]; F.chunk(2)[1]; m.cat([F,G]);
    m.cat((F,I),1); m.stack([F,G],1); m.hstack([F,G]); m.vstack([V,V]); m.dstack([F,G]); F.flip(0);
    F.flip(0,1); F.flip((1,)); F.roll(1); F.roll(1,1); F.roll((1,-1),(0,1)); F.tril(); F.triu(1); F.tril(-1);
    F.diagonal(); F.diagonal(1); BT.diagonal(0,1,2); m.diag(V); m.diag(V,1); m.diag(V,-2); m.diag(F);
    m.meshgrid(V,t([1.,2.]),indexing='ij')[0]; m.meshgrid(V,t([1.,2.]),indexing='xy')[1];
    m.broadcast_tensors(V,F)[0]
    """,
    """
    F[0]; F[-1,2]; F[:,1]; F[1:,::2]; F[None]; F[...,None,1]; F[..., -1]; F[t([0,2])]; F[[0,2]];
    F[:,t([3,0,-1])]; F[t([0,1]),t([1,2])]; F[t([[0],[1]]),t([1,2])]; BT[:,t([0,2]),t([1,3])];
    BT[t([0,1]),:,t([1,3])]; BT[0,:,t([1,3])]; F[B]; F[F>0]; BT[t([True,False])]; BT[:,B]; F[t(1)];
    F[1,t([0,1])]; F[t([True,False,True]),1]
    """,
    """
    F.gather(1,t([[0,1],[2,3],[0,0]])); F.gather(0,t([[0,1,2,0]])); F.gather(1,t([[3],[0],[1]]));
    m.take_along_dim(F,F.argmax(1,keepdim=True),1); F.take(t([0,5,-1])); F.index_select(1,t([2,0]));
    F.scatter_add(1,t([[0,1],[2,3],[0,0]]),G); F.scatter(1,t([[0,1],[2,3],[0,3]]),G);
    F.scatter(1,t([[0],[1],[2]]),9.); m.zeros(3,4).scatter_(1,t([[0],[1],[2]]),1.);
    F.index_add(0,t([0,2]),G[:2],alpha=2); F.masked_fill(B,-1e9); F.masked_fill(B,0); F.masked_select(B);
    B.nonzero(); m.nonzero(F>0,as_tuple=True)[1]; m.argwhere(B); m.bincount(t([0,3,1,3])); m.where(B,F,G);
    m.where(B,F,0.); m.where(B,1,0); m.where(B,1.,I); F.where(B,G)
    """,
    """
    F@M; F@V; V@V; BT@B2; BT@M; m.mm(F,M); m.bmm(BT,B2); m.mv(F,V); m.dot(V,V); m.outer(V,V); m.inner(F,G);
    m.addmm(F@M,F,M,beta=.5,alpha=2); m.baddbmm(BT@B2,BT,B2); m.trace(F); m.tensordot(F,M,1);
    m.tensordot(F,G,([0,1],[0,1])); m.einsum('ij,jk->ik',F,M); m.einsum('bij,bjk->bik',BT,B2);
    m.einsum('ij->ji',F); m.einsum('ij->',F); m.einsum('ii->i',F[:,:3]); m.einsum('i,j->ij',V,V);
    m.einsum('bij,kj->bik',BT,F); m.einsum('...ij,jk->...ik',BT,M); m.einsum('ij,ij->i',F,G);
    m.einsum('i,ij,j->',F[:,0],F,V); m.einsum('bij,bjk',BT,B2)
    """,
    """
    m.isnan(F/0*0); m.isinf(F/0); m.isfinite(F/0); m.isclose(F,F+1e-7); m.logical_and(I,B); m.logical_not(I);
    m.logical_or(B,I); m.logical_xor(I,B); I.ne(0); F.gt(0)
    """,
    """
    m.arange(5); m.arange(1,4); m.arange(0,1,.25); m.arange(5,0,-2); m.linspace(0,1,5); m.eye(3); m.eye(2,3);
    m.full((2,2),3); m.full((2,),1.5); m.zeros(2,3); m.ones((2,)); m.zeros_like(I); m.ones_like(F);
    m.full_like(F,2); t([[1,2],[3,4]]); t(3.5); t(True); t([]); m.tril(m.ones(3,3)); m.tril_indices(3,3);
    m.zeros(2,dtype=m.int64); m.empty(0); m.logspace(0,2,3)
    """,
    """
    F.to(m.float64); F.long(); F.int(); F.bool(); F.half(); F.double(); I.float(); F.clone(); F.detach();
    F.type(m.int64); F.to('cpu'); F.to(I); F.contiguous(); BT.transpose(0,1).contiguous(); F.new_zeros(2);
    F.new_tensor([1,2]); F.view_as(G); F.expand_as(G)
    """,
]


def values(library, expressions):
    """What a library computes for each expression."""
    names = {name: library.tensor(array) for name, array in DATA.items()}
    names |= {"m": library, "t": library.tensor}
    return [eval(expression, names) for expression in expressions]


@pytest.mark.parametrize("family", EXPRESSIONS, ids=lambda family: family.split(";")[0].strip())
def test_the_same_values(family):
    expressions = [" ".join(expression.split()) for expression in family.split(";")]
    pairs = zip(expressions, values(adjoint, expressions), values(torch, expressions), strict=True)
    for expression, found, wanted in pairs:
        assert tuple(found.shape) == tuple(wanted.shape), expression
        assert str(found.dtype) == str(wanted.dtype).removeprefix("torch."), expression
        array, target = found.numpy().astype(np.float64), wanted.numpy().astype(np.float64)
        np.testing.assert_allclose(array, target, rtol=2e-5, atol=2e-6, err_msg=expression)
