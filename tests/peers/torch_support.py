"""What the tests of ramet.torch share: PyTorch, and small modules."""

from package_support import BUILD, ROOT, skip_all  # noqa: F401  (other tests take them from here)

try:
    import torch
except ImportError:
    skip_all("PyTorch is not installed")

torch.set_num_threads(1)


class Net(torch.nn.Module):
    """Two layers on rows of 6 numbers, with a mean squared error."""

    def __init__(self, norm=False, dropout=0.0):
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.norm = torch.nn.BatchNorm1d(8) if norm else torch.nn.Identity()
        self.dropout = torch.nn.Dropout(dropout)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x, y):
        out = self.last(self.dropout(torch.relu(self.norm(self.first(x)))))
        return {"loss": torch.nn.functional.mse_loss(out, y), "out": out}


def seeded(make, seed=1):
    torch.manual_seed(seed)
    return make()


def batch(samples=4, seed=2):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(samples, 6, generator=generator), "y": torch.randn(samples, 3, generator=generator)}


class Rows(torch.nn.Module):
    """A module of one parameter `w`, one `v` and a buffer `b`, that computes what a function says."""

    def __init__(self, function):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([1.5, -2.0, 0.5]))
        self.v = torch.nn.Parameter(torch.tensor([0.5, 1.0, -1.0]))
        self.register_buffer("b", torch.tensor([0.1, 0.2, 0.3]))
        self.function = function

    def forward(self, x):
        return self.function(self, x)
