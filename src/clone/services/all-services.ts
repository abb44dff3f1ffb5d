import { SERVICE_IDS, type ServiceId } from '../clone-settings.ts';
import type { CloneService } from './clone-service.ts';
import * as list from './service-list.ts';

const SERVICES: Readonly<Record<ServiceId, CloneService>> = list;

/** The service that --clone names; undefined if it names another method. */
export function serviceNamed(method: string): CloneService | undefined {
  const id = SERVICE_IDS.find((each) => each === method);
  return id && SERVICES[id];
}

export function allServices(): CloneService[] {
  return SERVICE_IDS.map((id) => SERVICES[id]);
}
