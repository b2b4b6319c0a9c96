// The module that reads SMILES with RDKit: the only file that knows RDKit.

#include <GraphMol/ChemTransforms/ChemTransforms.h>
#include <GraphMol/RDKitBase.h>
#include <GraphMol/SmilesParse/SmilesParse.h>
#include <GraphMol/SmilesParse/SmilesWrite.h>
#include <RDGeneral/RDLog.h>
#include <RDGeneral/versions.h>

#include <memory>
#include <sstream>

#include "ramet/graphs/smiles.h"

namespace ramet::graphs {
namespace {

/// Collects what RDKit logs while it lives: the reason why a text is no SMILES stands nowhere else.
class Log {
 public:
  Log() : errors_(rdErrorLog), warnings_(rdWarningLog) {
    rdErrorLog = std::make_shared<boost::logging::rdLogger>(&stream_);
    rdWarningLog = std::make_shared<boost::logging::rdLogger>(&ignored_);
  }
  ~Log() { rdErrorLog = errors_, rdWarningLog = warnings_; }

  /// The first line that says what is wrong, without the time in front.
  std::string reason() const {
    std::istringstream lines(stream_.str());
    std::string line, first;
    while (std::getline(lines, line)) {
      if (const size_t time = line.find("] "); line.starts_with('[') && time != std::string::npos)
        line.erase(0, time + 2);
      if (first.empty()) first = line;
      if (line.find("rror") != std::string::npos) return line;
    }
    return first;
  }

 private:
  RDLogger errors_, warnings_;
  std::ostringstream stream_, ignored_;
};

int chirality_of(const RDKit::Atom& atom) {
  switch (atom.getChiralTag()) {
    case RDKit::Atom::CHI_UNSPECIFIED: return kNoChirality;
    case RDKit::Atom::CHI_TETRAHEDRAL_CW: return kClockwise;
    case RDKit::Atom::CHI_TETRAHEDRAL_CCW: return kCounterclockwise;
    case RDKit::Atom::CHI_OTHER: return kOtherChirality;
    default: return kUnknownChirality;
  }
}

int hybridization_of(const RDKit::Atom& atom) {
  switch (atom.getHybridization()) {
    case RDKit::Atom::SP: return kSp;
    case RDKit::Atom::SP2: return kSp2;
    case RDKit::Atom::SP3: return kSp3;
    case RDKit::Atom::SP3D: return kSp3d;
    case RDKit::Atom::SP3D2: return kSp3d2;
    default: return kOtherHybridization;
  }
}

int kind_of(const RDKit::Bond& bond) {
  switch (bond.getBondType()) {
    case RDKit::Bond::SINGLE: return kSingle;
    case RDKit::Bond::DOUBLE: return kDouble;
    case RDKit::Bond::TRIPLE: return kTriple;
    case RDKit::Bond::AROMATIC: return kAromatic;
    default: return kOtherBond;
  }
}

int stereo_of(const RDKit::Bond& bond) {
  switch (bond.getStereo()) {
    case RDKit::Bond::STEREOZ: return kStereoZ;
    case RDKit::Bond::STEREOE: return kStereoE;
    case RDKit::Bond::STEREOCIS: return kStereoCis;
    case RDKit::Bond::STEREOTRANS: return kStereoTrans;
    case RDKit::Bond::STEREOANY: return kStereoAny;
    default: return kNoStereo;
  }
}

Molecule molecule_of(const RDKit::ROMol& read) {
  Molecule molecule;
  const RDKit::RingInfo& rings = *read.getRingInfo();
  for (const RDKit::Atom* atom : read.atoms())
    molecule.atoms.push_back({.element = atom->getAtomicNum(),
                              .chirality = chirality_of(*atom),
                              .hybridization = hybridization_of(*atom),
                              .degree = static_cast<int>(atom->getTotalDegree()),
                              .charge = atom->getFormalCharge(),
                              .hydrogens = static_cast<int>(atom->getTotalNumHs()),
                              .radicals = static_cast<int>(atom->getNumRadicalElectrons()),
                              .valence = static_cast<int>(atom->getTotalValence()),
                              .aromatic = atom->getIsAromatic(),
                              .ring = rings.numAtomRings(atom->getIdx()) > 0});
  for (const RDKit::Bond* bond : read.bonds())
    molecule.bonds.push_back({.from = static_cast<int>(bond->getBeginAtomIdx()),
                              .to = static_cast<int>(bond->getEndAtomIdx()),
                              .kind = kind_of(*bond),
                              .stereo = stereo_of(*bond),
                              .conjugated = bond->getIsConjugated(),
                              .ring = rings.numBondRings(bond->getIdx()) > 0});
  const std::unique_ptr<RDKit::ROMol> scaffold(RDKit::MurckoDecompose(read));
  if (scaffold && scaffold->getNumAtoms() > 0) molecule.scaffold = RDKit::MolToSmiles(*scaffold, false);
  return molecule;
}

class RdkitReader final : public SmilesReader {
 public:
  std::string library() const override { return std::string("RDKit ") + RDKit::rdkitVersion; }

  std::string read(const std::string& smiles, Molecule& molecule) const override {
    const Log log;
    try {
      const std::unique_ptr<RDKit::RWMol> read(RDKit::SmilesToMol(smiles));
      if (read) {
        molecule = molecule_of(*read);
        return "";
      }
    } catch (const std::exception& error) {
      return error.what();
    }
    const std::string reason = log.reason();
    return reason.empty() ? "RDKit cannot read it" : reason;
  }
};

}  // namespace
}  // namespace ramet::graphs

extern "C" const ramet::graphs::SmilesModule ramet_smiles_module = {ramet::graphs::kSmilesModuleVersion,
                                                                    []() -> ramet::graphs::SmilesReader* {
                                                                      RDLog::InitLogs();
                                                                      return new ramet::graphs::RdkitReader;
                                                                    }};
