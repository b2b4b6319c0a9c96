// A libicudata without data, for wheels. Properties of characters, case and canonical normal forms are in the code of
// libicuuc; whatever else needs data, as the ends of sentences do, fails with an error of ICU's.
#include <unicode/udata.h>
#include <unicode/utypes.h>

namespace {

/// The head of a data file of ICU, and a table of contents of no entries.
struct EmptyData {
  uint16_t head_size = 32;
  uint8_t magic1 = 0xda, magic2 = 0x27;
  UDataInfo info{sizeof(UDataInfo), 0,           U_IS_BIG_ENDIAN,          U_CHARSET_FAMILY,
                 U_SIZEOF_UCHAR,    0,           {0x54, 0x6f, 0x43, 0x50},  // "ToCP": a table of pointers
                 {1, 0, 0, 0},      {0, 0, 0, 0}};
  char pad[8]{};
  int32_t entries = 0, reserved = 0;
};
static_assert(sizeof(UDataInfo) == 20 && offsetof(EmptyData, entries) == 32);

}  // namespace

extern "C" U_EXPORT const EmptyData U_ICUDATA_ENTRY_POINT{};
