# distributions.py -- torch.distributions: densities, moments, entropies and divergences at random parameters
#
#   python tests/data/distributions.py > tests/data/distribution_values.lua
#
# A case is {name, parameters, value, results}: log_prob and cdf are at the value, and kl is the divergence of the
# distribution with the parameters in reverse order. Positions count from 0.
import textwrap
import torch
from torch import distributions as D

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
N = 5


def lua(value):
    if torch.is_tensor(value):
        value = value.tolist()
    if isinstance(value, list):
        return '{' + ', '.join(map(lua, value)) + '}'
    if value != value or abs(value) == float('inf'):
        return {'nan': '0 / 0', 'inf': 'math.huge', '-inf': '-math.huge'}[str(value)]
    return '%.12g' % value


def real(*shape):
    return torch.randn(*(shape or (N,))) * 2


def positive(*shape):
    return real(*shape).exp()


def unit(*shape):
    return torch.rand(*(shape or (N,)))


def tril(n):
    return torch.tril(real(N, n, n), -1) / 4 + torch.diag_embed(unit(N, n) + 0.4)


count = torch.tensor([7.] * N)
cases = [
    ('Normal', dict(loc=real(), scale=positive())), ('LogNormal', dict(loc=real(), scale=unit())),
    ('Uniform', dict(low=real(), high=real() + 9)), ('Exponential', dict(rate=positive())),
    ('Laplace', dict(loc=real(), scale=positive())), ('StudentT', dict(df=positive(), loc=real(), scale=positive())),
    ('StudentT', dict(df=torch.tensor([0.7, 1., 1.5, 2., 30.]), loc=real(), scale=positive())),
    ('Gamma', dict(concentration=positive(), rate=positive())),
    ('Beta', dict(concentration1=unit() * 3 + 0.3, concentration0=unit() * 3 + 0.3)),
    ('Dirichlet', dict(concentration=unit(N, 3) * 3 + 0.3)),
    ('Bernoulli', dict(probs=unit())), ('Bernoulli', dict(logits=real())),
    ('Bernoulli', dict(probs=torch.tensor([0., 1., 0., 1., 0.25]))),
    ('Binomial', dict(total_count=count, probs=unit())), ('Binomial', dict(total_count=count, logits=real())),
    ('Categorical', dict(probs=positive(N, 4))), ('Categorical', dict(logits=real(N, 4))),
    ('Poisson', dict(rate=positive())),
    ('MultivariateNormal', dict(loc=real(N, 3), scale_tril=tril(3))),
    ('MultivariateNormal', dict(loc=real(N, 2), covariance_matrix=(lambda L: L @ L.mT)(tril(2)))),
    ('MultivariateNormal', dict(loc=real(N, 2), precision_matrix=(lambda L: L @ L.mT)(tril(2)))),
]
print('-- distribution_values.lua -- made by distributions.py with PyTorch ' + torch.__version__ + '\nreturn {')
for name, parameters in cases:
    p = getattr(D, name)(**parameters)
    x = p.sample()
    results = {'log_prob': p.log_prob(x), 'mean': p.mean, 'variance': p.variance}
    reverse = {key: value.flip(0) for key, value in parameters.items()}
    q = getattr(D, name)(**reverse)
    for key, get in dict(entropy=p.entropy, cdf=lambda: p.cdf(x), icdf=lambda: p.icdf(torch.full((N,), 0.3)),
                         mode=lambda: p.mode, kl=lambda: D.kl_divergence(p, q)).items():
        try:
            results[key] = get()
        except NotImplementedError:
            pass
    for key in {'Categorical': ['mean', 'variance'], 'Uniform': ['mode'], 'Beta': ['mode'],
                'Dirichlet': ['mode']}.get(name, []):
        del results[key]
    fields = ['%s = %s' % (key, lua(value)) for key, value in results.items()]
    text = "{'%s', {%s}, %s, {%s}}," % (name, ', '.join('%s = %s' % (key, lua(value))
                                                        for key, value in parameters.items()), lua(x),
                                        ', '.join(fields))
    print(textwrap.fill(text, 118, initial_indent='  ', subsequent_indent='    ', break_on_hyphens=False))
print('}')
