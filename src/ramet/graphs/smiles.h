#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ramet::graphs {

// Molecules written as SMILES. A chemistry library reads them: it decides what is aromatic, how many hydrogens an atom
// has and which rings there are. The library stands in a module that the program loads for this alone, so neither
// training nor libramet links it.

/// Positions in the lists of the Open Graph Benchmark (Hu et al., arXiv 2005.00687), which both feature sets use.
enum Chirality { kNoChirality, kClockwise, kCounterclockwise, kOtherChirality, kUnknownChirality };
enum Hybridization { kSp, kSp2, kSp3, kSp3d, kSp3d2, kOtherHybridization };
enum BondKind { kSingle, kDouble, kTriple, kAromatic, kOtherBond };
enum BondStereo { kNoStereo, kStereoZ, kStereoE, kStereoCis, kStereoTrans, kStereoAny };

/// A heavy atom, or a hydrogen that the SMILES names.
struct MoleculeAtom {
  int element = 0;  ///< from 1; 0: any atom ("*")
  int chirality = kNoChirality, hybridization = kOtherHybridization;
  int degree = 0;  ///< neighbours, hydrogens among them
  int charge = 0, hydrogens = 0, radicals = 0, valence = 0;
  bool aromatic = false, ring = false;
};
struct MoleculeBond {
  int from = 0, to = 0;
  int kind = kSingle, stereo = kNoStereo;
  bool conjugated = false, ring = false;
};
struct Molecule {
  std::vector<MoleculeAtom> atoms;
  std::vector<MoleculeBond> bonds;
  /// SMILES of its rings and what links them (Bemis and Murcko 1996), without chirality; empty without rings.
  std::string scaffold;
};

class SmilesReader {
 public:
  virtual ~SmilesReader() = default;
  /// "RDKit 2022.09.3"
  virtual std::string library() const = 0;
  /// Reads one molecule. Returns why it is none, or "".
  virtual std::string read(const std::string& smiles, Molecule& molecule) const = 0;
};

/// What a module exports under the name "ramet_smiles_module": this number, and a function that makes a reader.
struct SmilesModule {
  int version;
  SmilesReader* (*make)();
};
inline constexpr int kSmilesModuleVersion = 1;

/// Loads the module: the file that the environment variable RAMET_RDKIT names, or ramet_rdkit.so beside the program or
/// in ../lib/ramet. Throws Error that says how to get one.
std::shared_ptr<const SmilesReader> load_smiles_reader();
/// The same from a file. Throws Error for a file that is no module, or a module of another version of Ramet.
std::shared_ptr<const SmilesReader> load_smiles_reader(const std::filesystem::path& module);

}  // namespace ramet::graphs
