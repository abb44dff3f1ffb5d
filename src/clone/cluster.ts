import { codeOf } from '../errors.ts';
import type { Scope } from '../scope.ts';
import { clusterFolder, describeCluster, explainStrategy } from './cluster/describe-cluster.ts';
import { estimateClusterMs } from './cluster/estimate-cluster.ts';
import { fillFolder } from './cluster/fill.ts';
import { placesIn, snapshotCommands } from './cluster/snapshot.ts';
import { type Survey, surveyCluster } from './cluster/survey.ts';
import type { Assessment, Clone, CloneContext, CloneMethod, Possible } from './method.ts';
import { CopyObstacle, orImpossible, refusing } from './obstacle.ts';
import { assessContainment, type PrivateServer, startPrivateCluster } from './private-cluster.ts';

/** Clones the files of the whole cluster while it runs, and starts the copy as a private server. */
export const cluster: CloneMethod = {
  id: 'cluster',
  clonesOthers: true,
  assess: (context) => orImpossible(() => assess(context)),
  create,
  describe: async (context, assessment) => describeCluster(context, await survey(context, assessment)),
};

async function assess(context: CloneContext): Promise<Assessment> {
  const survey = await surveyCluster(context).catch((error: unknown) => {
    // A folder that cannot be read, or a file system without the system calls.
    if (codeOf(error) !== '' && error instanceof Error && 'syscall' in error)
      throw new CopyObstacle(`the server's files cannot be read: ${error.message}`);
    throw error;
  });
  const { strategy, bytes, server } = survey;
  const contained = await assessContainment(context, whereabouts(context, survey));
  if ('possible' in contained) return contained;
  const size = { ...survey, spreadMs: server.spreadMs };
  return {
    possible: true,
    strategy,
    readyMs: estimateClusterMs(strategy, context.options.checkpoint, size),
    stallMs: 0,
    bytes,
    endsSessions: false,
    isolation: 'own-cluster',
    ...contained,
    reason: explainStrategy(survey),
  };
}

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  return startPrivateCluster(context, await copyOfCluster(context, assessment, scope), scope);
}

/** Describes the server on a copy of the cluster, which this assessment found possible. @throws SafemigrateError `CLONE` */
export async function copyOfCluster(
  context: CloneContext,
  assessment: Possible,
  scope: Scope,
): Promise<PrivateServer> {
  const found = await survey(context, assessment);
  return {
    method: 'cluster',
    assessment,
    ...whereabouts(context, found),
    fill: (folder) => refusing(REFUSED, () => fillFolder(context, found, folder, scope)),
  };
}

function whereabouts(
  context: CloneContext,
  survey: Survey,
): Pick<
  PrivateServer,
  'folder' | 'owner' | 'programs' | 'release' | 'rollback' | 'places' | 'space' | 'files'
> {
  const folder = clusterFolder(context, survey);
  const { directory, programs, snapshots } = survey;
  const commands = snapshots && snapshotCommands(snapshots, context.run, folder);
  return {
    folder,
    owner: directory.owner,
    programs,
    files: survey.files,
    ...commands,
    ...(snapshots && { places: placesIn(folder, snapshots), space: survey.layout.data }),
  };
}

const REFUSED = 'The cluster cannot be copied';

/** Assesses again: the server may have stopped by then, or the disk filled up. @throws SafemigrateError `CLONE` */
function survey(context: CloneContext, { strategy }: Possible): Promise<Survey> {
  return refusing(REFUSED, async () => {
    const found = await surveyCluster(context);
    if (found.strategy === strategy) return found;
    throw new CopyObstacle(
      `what was possible as ${strategy} a moment ago is now possible as ${found.strategy} only`,
    );
  });
}
