"""`ramet molecules` beside RDKit's own Python package, read as PyTorch Geometric and MolNet read it."""

import csv
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from peers import PROGRAM, needs, ramet

HAND_MADE = """name,smiles,logp,active
benzene,c1ccccc1,2.13,yes
alanine,C[C@H](N)C(=O)O,-2.85,no
butene,C/C=C/C,2.31,yes
nitro,C[N+](=O)[O-],-0.35,
salt,[Na+].[Cl-],,no
carbene,[CH2],0.1,yes
unclosed,C1CCC,1,no
pentavalent,CC(C)(C)(C)C,2,no
unknown,Xyz,3,no
empty,,4,no
aspirin,CC(=O)Oc1ccccc1C(=O)O,1.19,yes
unkekulised,c1cccc1,1,no
"""

# Positions in PyTorch Geometric's lists -> positions in those of the Open Graph Benchmark.
HYBRIDIZATION = {"SP": 0, "SP2": 1, "SP3": 2, "SP3D": 3, "SP3D2": 4}
BONDS = {"SINGLE": 0, "DOUBLE": 1, "TRIPLE": 2, "AROMATIC": 3}
STEREO = {"STEREONONE": 0, "STEREOZ": 1, "STEREOE": 2, "STEREOCIS": 3, "STEREOTRANS": 4, "STEREOANY": 5}
ATOM_FIELDS = ("element", "chirality", "degree", "charge", "hydrogens", "radicals", "hybridization", "aromatic", "ring")


def atoms_of(data):
    from torch_geometric.utils.smiles import x_map
    names = x_map["hybridization"]
    for row in data.x.tolist():
        yield [row[0] - 1 if row[0] else 118, *row[1:6], HYBRIDIZATION.get(names[row[6]], 5), *row[7:]]


def bonds_of(data):
    """(target, source) -> kind, stereo, conjugated."""
    from torch_geometric.utils.smiles import e_map
    return {(target, source): [BONDS.get(e_map["bond_type"][kind], 4), STEREO[e_map["stereo"][stereo]], conjugated]
            for (source, target), (kind, stereo, conjugated)
            in zip(data.edge_index.t().tolist(), data.edge_attr.tolist())}


class GraphFile:
    """A graph set that `ramet molecules` wrote, graph by graph."""

    def __init__(self, path):
        from safetensors import safe_open
        with safe_open(path, "np") as file:
            self.schema = json.loads(file.metadata()["ramet.graphs"])
            self.tensors = {name: file.get_tensor(name) for name in file.keys()}

    def graphs(self):
        return len(self.tensors["node.ptr"]) - 1

    def atoms(self, graph):
        first, last = self.tensors["node.ptr"][graph:graph + 2]
        return [list(row) for row in
                zip(*(self.tensors[f"node.{name}"][first:last].tolist() for name in ATOM_FIELDS))]

    def bonds(self, graph):
        first, last = self.tensors["edge.ptr"][graph:graph + 2]
        index = self.tensors["edge.index"][:, first:last]
        return {(target, source): list(values) for source, target, *values in
                zip(*index.tolist(), *(self.tensors[f"edge.{name}"][first:last].tolist()
                                       for name in ("kind", "stereo", "conjugated")))}

    def names(self, key):
        return next(field["values"] for field in self.schema["fields"] if
                    ("graph" if field["per"] == "graph" else field["of"]) + "." + field["name"] == key)


def scaffold_of(smiles):
    from rdkit import Chem
    from rdkit.Chem.Scaffolds import MurckoScaffold
    return MurckoScaffold.MurckoScaffoldSmiles(mol=Chem.MolFromSmiles(smiles), includeChirality=False)


def scaffold_split(groups, count):
    """Parts of 80, 10 and 10 percent, as MolNet makes them (Wu et al., arXiv 1703.00564)."""
    ordered = sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True)
    parts = [[], [], []]
    for group in ordered:
        if len(parts[0]) + len(group) <= 8 * count // 10:
            parts[0] += group
        elif len(parts[1]) + len(group) <= 9 * count // 10 - 8 * count // 10:
            parts[1] += group
        else:
            parts[2] += group
    return parts


@needs("rdkit", "torch_geometric", "safetensors")
@unittest.skipUnless((PROGRAM.parent / "ramet_rdkit.so").exists(), "no ramet_rdkit.so; `make molecules` builds it")
class MoleculesBesideRdkit(unittest.TestCase):
    def read(self, table, *options):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        folder = pathlib.Path(self.folder.name)
        (folder / "table.csv").write_text(table)
        self.printed = ramet("molecules", "table.csv", "--out", "out", "--json", *options, folder=folder)
        self.refused = list(csv.DictReader(io.StringIO((folder / "out/refused.csv").read_text())))
        return GraphFile(folder / "out/molecules.safetensors")

    def check(self, graphs, smiles):
        from torch_geometric.utils import from_smiles
        self.assertEqual(graphs.graphs(), len(smiles))
        for number, text in enumerate(smiles):
            peer = from_smiles(text)
            with self.subTest(text):
                self.assertEqual(graphs.atoms(number), list(atoms_of(peer)))
                self.assertEqual(graphs.bonds(number), bonds_of(peer))

    def test_hand_made_molecules(self):
        graphs = self.read(HAND_MADE, "--targets", "logp", "--label", "active")
        rows = list(csv.DictReader(io.StringIO(HAND_MADE)))
        bad = {"unclosed", "pentavalent", "unknown", "empty", "unkekulised"}
        kept = [row for row in rows if row["name"] not in bad]
        self.check(graphs, [row["smiles"] for row in kept])
        self.assertEqual({int(row["line"]) for row in self.refused},
                         {number for number, row in enumerate(rows, 2) if row["name"] in bad})
        reasons = {row["smiles"]: row["reason"] for row in self.refused}
        self.assertIn("unclosed ring", reasons["C1CCC"])
        self.assertIn("valence", reasons["CC(C)(C)(C)C"])
        self.assertIn("kekulize", reasons["c1cccc1"])
        self.assertTrue(reasons["Xyz"])
        self.assertEqual(reasons[""], "the cell is empty")
        said = json.loads(self.printed.splitlines()[0])
        self.assertEqual((said["rows"], said["refused"]), (12, 5))
        self.assertEqual(graphs.tensors["graph.label"].tolist(), [1, 0, 1, -1, 0, 1, 1])

    def test_a_table_without_any_molecule_is_an_error_and_a_list(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "table.csv").write_text("smiles\nC1CCC\nXyz\nCC(C)(C)(C)C\n")
            done = subprocess.run([PROGRAM, "molecules", "table.csv", "--out", "out"], cwd=folder, capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            for text in ("3 of 3 rows are no molecules", "in line 2 'C1CCC'", "out/refused.csv"):
                self.assertIn(text, done.stderr)
            refused = list(csv.DictReader(io.StringIO((folder / "out/refused.csv").read_text())))
            self.assertEqual([row["smiles"] for row in refused], ["C1CCC", "Xyz", "CC(C)(C)(C)C"])
            self.assertFalse((folder / "out/molecules.safetensors").exists())

    def test_a_published_table(self):
        data = os.environ.get("RAMET_DATA")
        table = pathlib.Path(data or ".") / "moleculenet/BBBP.csv"
        if not data or not table.exists():
            self.skipTest("RAMET_DATA has no moleculenet")
        from rdkit import Chem, RDLogger
        RDLogger.DisableLog("rdApp.*")
        text = table.read_text()
        graphs = self.read(text, "--label", "p_np", "--apply", "split-by=scaffold:80:10:10")
        rows = [row["smiles"].strip() for row in csv.DictReader(io.StringIO(text))]
        valid = [smiles for smiles in rows if Chem.MolFromSmiles(smiles) is not None]
        self.assertEqual(len(rows) - len(valid), len(self.refused))
        self.check(graphs, valid)
        groups = {}
        names = graphs.names("graph.scaffold")
        for number, smiles in enumerate(valid):
            # Two versions of RDKit may write one scaffold in two ways: both are read again.
            peer = Chem.CanonSmiles(scaffold_of(smiles)) if scaffold_of(smiles) else ""
            ours = names[graphs.tensors["graph.scaffold"][number]]
            self.assertEqual(Chem.CanonSmiles(ours) if ours else "", peer, smiles)
            groups.setdefault(int(graphs.tensors["graph.scaffold"][number]), []).append(number)
        split = graphs.tensors["graph.split"]
        for part, members in enumerate(scaffold_split(groups, len(valid))):
            self.assertEqual([number for number in range(len(valid)) if split[number] == part], sorted(members))


if __name__ == "__main__":
    unittest.main()
