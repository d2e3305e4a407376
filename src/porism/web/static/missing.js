// An address that is no room: what every page has, and nothing else.

import { startPage } from "./page.js";

startPage();
