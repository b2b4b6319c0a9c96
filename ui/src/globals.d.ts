import type { Export } from "./api.ts";

declare global {
  interface Window {
    __RAMET_EXPORT__?: Export;
  }
}
export {};
